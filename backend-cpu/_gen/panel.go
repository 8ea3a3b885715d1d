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

// Wide panels and activations, of 16 bits, for 8-bit weights without VNNI: levels times activations outgrow 16 bits, and one product of pairs
// of 16 bits costs less than the steps around one of bytes. A record is [16 groups of 2 columns][16 rows][2 levels], then
// scales; an activation block its 32 values and the fields of a usual one.
const (
	wideScale = 1024
	wideSize  = wideScale + 64
	wideD     = 64
	wideAct   = 80
)
