// Package devicetest holds the end-to-end tests of the CUDA backend: whole models on a real GPU. It has tests only. Without a
// device, or without the kernels' image, each says so and skips (those of the tests' own variables run on a fake one);
// docs/cuda.md tells how to run them.
package devicetest
