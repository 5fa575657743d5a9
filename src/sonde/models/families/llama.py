"""Llama and the decoders built like it: Mistral, Qwen, Gemma, StarCoder2, Phi, Granite, OLMo, DeepSeek."""

from sonde.models.engine.architectures import DecoderFamily

family = DecoderFamily(
    model_types=frozenset(
        {
            *("llama", "mistral", "mixtral", "starcoder2", "phi", "phi3", "stablelm", "smollm3"),
            *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text"),
            *("granite", "granitemoe", "olmo", "olmo2", "cohere", "cohere2", "deepseek_v2", "deepseek_v3"),
        }
    )
)
