package attn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlanBlocks(t *testing.T) {
	in := Inputs{
		Lengths: []int32{1, 2, 3, 4, 0, 300, 301, 5, 7},
		Seqs:    []int32{0, 0, 0, 0, 0, 1, 1, 0, 2},
	}
	p := NewPlan(in, 40) // 3 rows a block
	for range 2 {        // building again gives the same
		p.Build()
		require.Equal(t, []block{
			{row: 0, rows: 3, seq: 0, length: 3}, {row: 3, rows: 1, seq: 0, length: 4}, // full
			{row: 5, rows: 2, seq: 1, length: 301}, // after padding, another sequence
			{row: 7, rows: 1, seq: 0, length: 5}, {row: 8, rows: 1, seq: 2, length: 7},
		}, p.blocks)
		require.Equal(t, 3, p.chunks)
		require.EqualValues(t, 3+4+301+5+7, p.Cells)
	}
	require.Zero(t, testing.AllocsPerRun(10, p.Build))
	require.Equal(t, 1, NewPlan(in, 200).maxRows, "more heads a KV head than a block takes")
}

func TestOffsetsFollowRuns(t *testing.T) {
	p := NewPlan(Inputs{
		Lengths: []int32{9},
		SeqRuns: []int32{0, 1, 1, 3},
		Runs:    []int32{50, 9, 10, 3, 0, 0, 4, 6}, // sequence 1: cells 10 11 12, none, 4 … 9
	}, 1)
	want := []int{10, 11, 12, 4, 5, 6, 7, 8, 9}
	for first := range want {
		for n := 1; first+n <= len(want); n++ {
			offs := make([]int, n+1)
			offs[n] = -1
			p.offsets(offs, 1, first, n, 1000, 7)
			for j := range n {
				require.Equal(t, want[first+j]*1000+7, offs[j], "position %d", first+j)
			}
			require.Equal(t, -1, offs[n], "no more than asked for")
		}
	}
}

func TestChunkCounts(t *testing.T) {
	b := block{rows: 1, length: 1}
	require.Positive(t, b.cost())
	require.Equal(t, 1, chunksOf(128))
	require.Equal(t, 2, chunksOf(129))
	require.Zero(t, chunksOf(0))
}

// A prompt's blocks and KV heads are handed out once each, from the end, and all anew after the next build, whatever was left.
func TestTake(t *testing.T) {
	var in Inputs
	for r := range 10 {
		in.Lengths, in.Seqs = append(in.Lengths, int32(r+1)), append(in.Seqs, 0)
	}
	p := NewPlan(in, 32) // 4 rows a block
	j := &Job{Shape: Shape{Heads: 64, KVHeads: 2}, Plan: p}
	for _, n := range []int{6, 3, 6} {
		p.Build()
		require.True(t, p.prompt())
		for i := range n {
			b, h0, h1, ok := j.take()
			require.True(t, ok)
			require.Equal(t, []int{8 - i/2*4, i % 2, i%2 + 1}, []int{b.row, h0, h1})
		}
		if n == 6 {
			_, _, _, ok := j.take()
			require.False(t, ok)
		}
	}
	in.Lengths = in.Lengths[:3]
	p = NewPlan(in, 32)
	p.Build()
	require.False(t, p.prompt(), "no block is full")
}
