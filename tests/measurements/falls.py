"""How often is a learned score lost again? python tests/measurements/falls.py

Twenty runs each of the script, of clipped.py and of its two changes alone go on for 200,000 frames.
Once a mean of fifty episodes has exceeded 150, how many later ones are lower again?
"""
import itertools

import benchmark


def main():
    for name in ("a3c.ParameterServer", "clipped.Server", "clipped.Clipping",
                 "clipped.FallingRate"):
        later = []
        for seed in range(20):
            run = benchmark.points("clipped", "--max-frames", 200_000, "--seed", seed,
                                   call=f"a3c.main(None, {name})")
            means = [mean for _, _, mean in run if mean is not None]
            later += itertools.dropwhile(lambda mean: mean <= 150, means)
        low = [f"{sum(mean < limit for mean in later) / len(later):.1%} below {limit}"
               for limit in (150, 100)]
        print(f"{name}: of {len(later)} means {' and '.join(low)}", flush=True)


if __name__ == "__main__":
    main()
