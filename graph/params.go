package graph

import "github.com/minfer-go/minfer/quant"

// Params decides a graph's topology and is its cache key: everything else about a step (tokens, positions, lengths,
// run tables) is data in its inputs. Comparable.
type Params struct {
	Rows    int // rows of the step: each has a token, a position and a sequence (bucketed by the caller; spare rows are padding)
	Outputs int // rows whose logits are wanted (capacity; bucketed)
	Seqs    int // sequences in the run table (capacity)
	Runs    int // runs in the run table (capacity)
	Cells   int // cells of the KV cache

	KeyType, ValueType quant.Type // KV row formats: F32, F16 or Q8_0

	Features Feature
}

// Feature switches variants of a model's graph.
type Feature uint32

const (
	// FeatureHidden makes every block output a graph output too (hidden-state tests, embeddings).
	FeatureHidden Feature = 1 << iota
	// FeatureSample makes the drawn tokens the graph's output 0 and the logits its output 1, which as a rule nobody reads.
	FeatureSample
	// FeatureNoFuse switches the fusion pass off: the reference for fused kernels.
	FeatureNoFuse
)

// Input is a step input. All are I32 tensors.
type Input uint8

const (
	InTokens    Input = iota // [rows] token ids
	InPositions              // [rows] RoPE positions
	InSeqs                   // [rows] which entry of the run table the row's sequence is
	InLengths                // [rows] how many of its sequence's cells the row attends to, its own included; 0: padding row
	InCells                  // [rows] the cell that the row's K and V are stored in; -1: padding row, not stored
	InOutputs                // [outputs] rows whose logits are wanted
	InSeqRuns                // [seqs, 2] first run and number of runs of each sequence
	InRuns                   // [runs, 2] first cell and number of cells; a sequence's runs in order, its cell 0 first
	InSampling               // [outputs, SamplingWords] how Sample draws each output row's token
	NumInputs
)

var inputNames = [NumInputs]string{"tokens", "positions", "seqs", "lengths", "cells", "outputs", "seq_runs", "runs", "sampling"}

func (i Input) String() string { return inputNames[i] }

// SamplingWords is the length of a row of InSampling, words of 32 bits, the low half of a number first: temperature, top-p, min-p and a random
// number of [0, 1), each a float64, then top-k and 0. Temperature 0 is the most probable token; top-k 0, top-p 1 and min-p 0 are off.
const SamplingWords = 10

// InputShape is the shape of an input under p.
func (p Params) InputShape(i Input) Shape {
	switch i {
	case InOutputs:
		return Shape{p.Outputs}
	case InSeqRuns:
		return Shape{p.Seqs, 2}
	case InRuns:
		return Shape{p.Runs, 2}
	case InSampling:
		return Shape{p.Outputs, SamplingWords}
	}
	return Shape{p.Rows}
}
