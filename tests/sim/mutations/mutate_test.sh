#!/usr/bin/env bash
PYTHONPATH=tests/sim/mutations exec python3 -m unittest \
  function_bodies_test mutate_test run_mutants_test
