package graph

// Attributes of ops, by value in Node.Attr. All are comparable.

// InputAttr: which step input a node stands for (params.go).
type InputAttr struct{ Input Input }

// NormAttr belongs to RmsNorm (over the last dimension) and QkNorm (over head_dim, per head).
type NormAttr struct{ Eps float32 }

// ScaleAttr belongs to Scale: y = x * Factor.
type ScaleAttr struct{ Factor float32 }

// ViewAttr belongs to View: the columns [Offset, Offset+width) of each row of a [rows, n] tensor, width being the
// product of the view's shape after its first dimension. A view shares its operand's buffer: its rows are strided.
type ViewAttr struct{ Offset int }

// PermuteAttr: dimension i of the result is dimension Dims[i] of the operand. The result is contiguous (a copy).
type PermuteAttr struct{ Dims [4]int8 }

// RopeStyle says which elements form a rotated pair.
type RopeStyle uint8

const (
	RopeNeox        RopeStyle = iota // (i, i + dim/2), as Qwen has it
	RopeInterleaved                  // (2i, 2i+1)
)

// RopeAttr: rotary position embedding over the first Dims elements of each head. Frequencies and scaling follow
// llama.cpp's rope_yarn: theta_i = pos * Base^(-2i/Dims), multiplied by FreqScale (linear), or blended by the YaRN
// ramp when ExtFactor is not 0; the rotated values are multiplied by the magnitude scale (AttnFactor and, for YaRN,
// 1 + 0.1 ln(1/FreqScale)).
type RopeAttr struct {
	Style      RopeStyle
	Dims       int
	Base       float32
	FreqScale  float32 // 1, or 1/factor
	ExtFactor  float32 // 0: linear or none; 1: YaRN
	AttnFactor float32
	BetaFast   float32
	BetaSlow   float32
	OrigCtx    int // YaRN: context length of training
}

// KVAttr belongs to KvcacheStore and KvcacheLoad: which persistent region.
type KVAttr struct {
	Layer int
	Value bool // the V region, else K
}

// AttnAttr: causal grouped-query attention of each row over its sequence's cells.
type AttnAttr struct {
	Layer   int
	Heads   int
	KVHeads int
	HeadDim int
	Scale   float32
}

// SampleAttr belongs to Sample: the first Vocab logits of a row may be drawn, those beyond never.
type SampleAttr struct{ Vocab int }

// QkvAttr belongs to FusedQKV (widths of the parts of its packed output row q|k|v), QkvBiasRopeStore and FusedQkvNorm.
type QkvAttr struct {
	Layer   int
	Heads   int
	KVHeads int
	HeadDim int
	Eps     float32 // FusedQkvNorm
	Rope    RopeAttr
}
