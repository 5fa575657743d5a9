"""GPT-2 and what followed from it: GPT-Neo, GPT-NeoX, GPT-J, CodeGen, GPT-BigCode."""

from sonde.models.engine.architectures import DecoderFamily

family = DecoderFamily(
    model_types=frozenset(
        {"gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen", "gpt_bigcode", "openai-gpt", "gpt_neox_japanese"}
    )
)
