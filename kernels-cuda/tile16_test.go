package kernelscuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var quantisedTypes = []int32{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K}

func randomFile(t int32, rows, k int) []byte {
	f := formats[t]
	rng := rand.New(rand.NewPCG(uint64(t), uint64(rows*k)))
	file := make([]byte, rows*(k/f.elements)*f.bytes)
	for i := range file {
		file[i] = byte(rng.Uint32())
	}
	return file
}

func TestTile16RoundTrip(t *testing.T) {
	for _, ty := range quantisedTypes {
		for _, s := range [][2]int{{1, 256}, {16, 512}, {17, 768}, {45, 1024}, {3, 32}, {20, 288}, {16, 896}} {
			rows, k := s[0], s[1]
			if k%formats[ty].elements != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d/%dx%d", ty, rows, k), func(t *testing.T) {
				file := randomFile(ty, rows, k)
				planes, err := Tile16(ty, rows, k, file)
				require.NoError(t, err)
				sizes, err := Tile16Planes(ty, rows, k)
				require.NoError(t, err)
				assert.EqualValues(t, sizes.Bytes(), len(planes))
				if rows%16 == 0 && k%256 == 0 {
					assert.Len(t, planes, len(file), "the file's bytes and no more")
				}
				back, err := Untile16(ty, rows, k, planes)
				require.NoError(t, err)
				assert.Equal(t, file, back)
			})
		}
	}
}

// TestTile16Places looks at single bytes where the description of the layout puts them.
func TestTile16Places(t *testing.T) {
	const rows, k, row, group = 40, 768, 21, 2 // row 5 of tile 1, the last of 3 groups
	for _, c := range []struct {
		t             int32
		block, inFile int // of the group, byte of the block
		plane, at     int // of the group's bytes
	}{
		{Q4_K, 0, 3, 1, 3}, {Q4_K, 0, 16 + 33, 0, 33}, {Q5_K, 0, 16 + 17, 1, 33}, {Q5_K, 0, 48, 0, 0},
		{Q6_K, 0, 127, 0, 127}, {Q6_K, 0, 128 + 40, 1, 16 + 40}, {Q6_K, 0, 192 + 7, 1, 7}, {Q6_K, 0, 209, 2, 1},
		{Q8_0, 3, 1, 1, 7}, {Q8_0, 3, 2 + 20, 0, 3*32 + 20}, {Q4_0, 7, 0, 1, 14}, {Q4_0, 7, 2 + 15, 0, 127},
		{Q4_1, 2, 3, 1, 11}, {Q4_1, 2, 4, 0, 32}, {Q5_0, 6, 1, 1, 13}, {Q5_0, 6, 5, 1, 16 + 27}, {Q5_0, 6, 6, 0, 96},
		{Q5_1, 5, 2, 1, 22}, {Q5_1, 5, 4, 1, 32 + 20}, {Q5_1, 5, 23, 0, 95},
	} {
		f := formats[c.t]
		file := make([]byte, rows*(k/f.elements)*f.bytes)
		file[(row*(k/f.elements)+group*(256/f.elements)+c.block)*f.bytes+c.inFile] = 0xff
		planes, err := Tile16(c.t, rows, k, file)
		require.NoError(t, err)
		sizes, err := Tile16Planes(c.t, rows, k)
		require.NoError(t, err)
		bytes := [3]int{f.data, f.head, f.tail}[c.plane]
		unit := min(16, bytes)
		at := [3]int64{0, sizes.Data, sizes.Data + sizes.Head}[c.plane]
		at += int64((1*3+group)*bytes*16 + c.at/unit*unit*16 + 5*unit + c.at%unit)
		for i, b := range planes {
			require.Equal(t, int64(i) == at, b == 0xff, "type %d, byte %d of block %d: byte %d of the planes", c.t, c.inFile, c.block, i)
		}
	}
}

func TestTile16Refuses(t *testing.T) {
	for _, err := range []error{
		second(Tile16Planes(F16, 16, 256)), second(Tile16Planes(99, 16, 256)), second(Tile16Planes(Q4_K, 16, 128)), second(Tile16Planes(Q8_0, 0, 32)),
		second(Tile16(Q4_0, 2, 32, make([]byte, 35))), second(Untile16(Q4_0, 2, 32, make([]byte, 35))), second(RawStride(Q6_K, 100)),
	} {
		require.ErrorIs(t, err, ErrShape)
	}
}

func second[T any](_ T, err error) error { return err }

func TestMatvecParts(t *testing.T) {
	for _, c := range []struct{ rows, k, want int }{
		{64, 32, 2}, {64, 512, 2}, {64, 513, 4}, {3584, 3584, 14}, {152064, 3584, 8}, {18944, 3584, 8}, {3584, 18944, 20}, {4096, 12288, 16}, {5120, 5120, 20}, {151936, 1024, 2},
	} {
		assert.Equal(t, c.want, MatvecParts(c.rows, c.k), "%d rows of %d", c.rows, c.k)
	}
	for k := 32; k < 60000; k += 160 {
		for _, rows := range []int{1, 100000} {
			parts := MatvecParts(rows, k)
			require.True(t, parts >= 2 && parts%2 == 0 && parts <= 2*tileWarps, "%d parts for rows of %d", parts, k)
		}
	}
}
