#!/bin/bash
# builds chaos with each of the mutants
cd tree
for m in "$@"; do
  git apply tests/mutants/$m.patch || { echo "$m does not apply"; continue; }
  cargo test --locked --all-features --test chaos --no-run > scratch/-build.log 2>&1 || echo "$m does not build"
  B=$(ls -t target/debug/deps/chaos-* | grep -v '\.d$' | head -1); cp $B scratch/-$m
  git apply -R tests/mutants/$m.patch
  echo "$m built"
done
