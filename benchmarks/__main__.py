"""`python -m benchmarks`, which `make bench` runs; PEERS=1 adds Flink."""

from benchmarks.slice import main

if __name__ == "__main__":
    main()
