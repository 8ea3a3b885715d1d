package main

// The layout that unpackers write and tiles read: for each block of 32 columns of 16 weight rows,
// [8 groups of 4 columns][16 rows][4 levels], then the rows' scales (one or two vectors) and minimums.
const (
	recLevels = 0
	groupSize = 64 // 16 rows of 4 levels
	recScale  = 512
	recScale2 = 576 // second half's scale (Q6_K)
	recMin    = 576 // or the minimum, for types that have one
	recSize   = 640
)

// The layout of an activation block.
const (
	actD    = 32
	actDS   = 36
	actN32  = 40
	actN16  = 44
	actSize = 48
)

// Signed panels, for 8-bit weights without VNNI. vpmaddubsw wants one side unsigned, so a record holds magnitudes, and for each level a mask that is
// all ones where it is negative: x^mask is -x-1 there, and what that takes too little of is the same for all activations, the sum of
// the negative levels' magnitudes. [8 groups]([16 rows][4 masks], [16 rows][4 magnitudes]), scales, those sums.
const (
	signGroup  = 2 * groupSize
	signScale  = 8 * signGroup
	signOffset = signScale + 64
	signSize   = signOffset + 64
)
