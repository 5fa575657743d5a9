"""One training at one rate: from the last checkpoint to the best epoch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from sonde.base.fingerprint import derive_seed
from sonde.training.finetuning import checkpoint
from sonde.training.finetuning.answers import answer
from sonde.training.finetuning.batches import collate, order
from sonde.training.finetuning.checkpoint import Epoch, TrainingState
from sonde.training.finetuning.data import Encoded
from sonde.training.finetuning.model import HeadedModel
from sonde.training.finetuning.portions import Portions
from sonde.training.finetuning.recipe import FineTuning
from sonde.training.finetuning.sharded import is_sharded
from sonde.training.finetuning.together import add_up, own_part, wait, world
from sonde.training.precision import in_bfloat16

CHECKPOINT, BEST = "checkpoint.pt", "best.safetensors"

OnStep = Callable[[int], None]


def rate_factor(step: int, steps: int, warmup: float) -> float:
    """The rate of an update (from 0) as a share of its peak: up in a line, then down to 0 in a line."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return max(0.0, (steps - step) / max(1, steps - rising))


def fit(
    model: HeadedModel,
    train: Sequence[Encoded],
    valid: Sequence[Encoded],
    recipe: FineTuning,
    *,
    rate: float,
    pad: int,
    folder: Path,
    portions: Portions,
    on_step: OnStep | None = None,
) -> TrainingState:
    """Train, or go on where an earlier call was killed, and leave the weights of the best epoch.

    The order of the examples follows from seed and epoch, and a checkpoint holds weights, optimiser, random
    numbers and place, so that a killed training ends with the weights of an undisturbed one (one thread, same
    machine). The rate follows from the number of the update.

    Args:
        model: A body with its head; trained in place.
        train: What is trained on.
        valid: What epochs are chosen on.
        recipe: How.
        rate: Peak learning rate.
        pad: Subword of padding.
        folder: Where checkpoints and the best weights go.
        portions: How much is read at once.
        on_step: Is told the number of every update done.

    Raises:
        StoreError: A checkpoint could not be written.
        InputError: The checkpoint found is of another architecture, or one example does not fit into memory.
    """
    optimiser = _optimiser(model, rate, recipe)
    steps = recipe.epochs * len(order(train, recipe.batch, recipe.seed, 0))
    device = next(model.parameters()).device
    with _random(derive_seed("train", recipe.seed, rate)):
        course = checkpoint.read(folder / CHECKPOINT, model, optimiser)
        while not _done(course, recipe):
            batches = order(train, recipe.batch, recipe.seed, course.epoch)
            model.train()
            # Summed where it is computed: to ask for each loss would have an accelerator wait for us.
            total = torch.tensor(course.total, dtype=torch.float64, device=device)
            for rows in batches[course.position :]:
                for group in optimiser.param_groups:
                    group["lr"] = rate * rate_factor(course.step, steps, recipe.warmup)
                total += _update(model, rows, train, pad, optimiser, recipe, portions)
                course.position += 1
                course.step += 1
                if course.step % recipe.checkpoint == 0 and course.position < len(batches):
                    course.total = float(total)
                    checkpoint.write(folder / CHECKPOINT, course, model, optimiser)
                if on_step is not None:
                    on_step(course.step)
            seen = answer(model, valid, pad, portions)
            course.epoch, course.position = course.epoch + 1, 0
            course.history.append(Epoch(course.epoch, float(total) / len(train), seen.share, seen.loss))
            course.total = 0.0
            if course.best is course.history[-1]:
                checkpoint.write_weights(folder / BEST, model)
            checkpoint.write(folder / CHECKPOINT, course, model, optimiser)
            wait()
    return course


def _done(course: TrainingState, recipe: FineTuning) -> bool:
    best = course.best
    return course.epoch >= recipe.epochs or (
        best is not None and course.epoch - best.epoch >= recipe.patience
    )


def _update(
    model: HeadedModel,
    rows: Sequence[int],
    train: Sequence[Encoded],
    pad: int,
    optimiser: torch.optim.Optimizer,
    recipe: FineTuning,
    portions: Portions,
) -> Tensor:
    """One update; gives the sum of the losses of its examples before it.

    A batch that does not fit into memory is read in portions, whose gradients add up to those of the whole.
    """
    device = next(model.parameters()).device
    before = checkpoint.random_state()
    sharded = is_sharded(model)
    # Where gradients are averaged over the processes, and have to be added up.
    share = (world() if sharded else 1) / len(rows)

    def gradients(some: Sequence[int], counts: float = 1.0) -> Tensor:
        batch = collate(some, train, pad, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=in_bfloat16(recipe.precision, device)):
            loss = model.head.loss(model(batch), batch)
        (loss * (len(some) * share * counts)).backward()
        return loss.detach().double() * (len(some) * counts)

    def again() -> None:
        optimiser.zero_grad(set_to_none=True)
        checkpoint.set_random_state(before)

    own = own_part(rows)
    losses = [loss for _, loss in portions.done(own, train, gradients, again)] if len(own) else []
    if sharded:
        # A layer is put together by all processes at once, so each has to read as often as the others.
        most = portions.number(-(-len(rows) // world()))
        losses += [gradients(rows[:1], 0.0) for _ in range(most - len(losses))]
    total = torch.zeros((), dtype=torch.float64, device=device)
    for loss in losses:
        total += loss
    total = add_up(model, total, gradients=not sharded)
    nn.utils.clip_grad_norm_([one for one in model.parameters() if one.requires_grad], recipe.clip)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return total


def _optimiser(model: HeadedModel, rate: float, recipe: FineTuning) -> torch.optim.Optimizer:
    moved = [one for one in model.parameters() if one.requires_grad]
    groups = [
        {"params": [one for one in moved if one.ndim > 1], "weight_decay": recipe.decay},
        {"params": [one for one in moved if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=rate)


@contextmanager
def _random(seed: int) -> Generator[None]:
    """A source of random numbers of one's own, whatever was drawn before, and as it was afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        yield
