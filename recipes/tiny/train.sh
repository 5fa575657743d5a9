#!/bin/sh
# Twelve tiny decoders, four sizes by three amounts of reading, each from a seed of its own. The largest that reads
# most is that of mini-decoder-cpu.toml, whose checkpoints are kept for series.toml.
#     sh recipes/tiny/train.sh
# Data and models lie in .training/; what is there already is not trained again. An hour of one core.
set -e
here=$(dirname "$0")
seed=100
for shape in "64 2 176" "128 3 344" "256 4 688" "32 2 88"; do
    set -- $shape
    for steps in 50 200 600; do
        seed=$((seed + 1))
        [ "$1 $steps" = "256 600" ] && continue
        name="tiny-$1-$steps"
        [ -f ".training/$name/model/model.safetensors" ] && continue
        mkdir -p .training/recipes
        sed -e "s/@HIDDEN@/$1/g" -e "s/@LAYERS@/$2/g" -e "s/@WIDE@/$3/" -e "s/@STEPS@/$steps/g" -e "s/@SEED@/$seed/" \
            "$here/model.toml.in" > ".training/recipes/$name.toml"
        sonde pretrain ".training/recipes/$name.toml"
    done
done
[ -f .training/mini-decoder/model/model.safetensors ] || sonde pretrain "$here/../mini-decoder-cpu.toml" --keep-series
