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

// Signed panels, for 8-bit weights without VNNI. vpmaddubsw wants one side unsigned, so a record holds magnitudes, and for each level the place
// of the activation that it is multiplied with in a table of 16 bytes: 8 activations, then the same negated. vpshufb looks up on ports that products
// don't want; changing signs by xor or vpsignb takes theirs. [8 groups]([16 rows][4 places], [16 rows][4 magnitudes]), scales.
const (
	signGroup = 2 * groupSize
	signScale = 8 * signGroup
	signSize  = signScale + 64
)

// The layout of a block of activations as such tables.
const (
	bothD    = 64
	bothSize = 80
)
