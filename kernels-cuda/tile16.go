package kernelscuda

// Planes is the sizes in bytes of the three planes of a weight in layout tile16 (cu/quant.cuh). They lie one after the other: head
// begins at Data, tail at Data+Head.
type Planes struct{ Data, Head, Tail int64 }

// Bytes is the size of all three.
func (p Planes) Bytes() int64 { return p.Data + p.Head + p.Tail }

// Tile16Planes gives the planes of a weight [rows, k] of a quantised type: ErrShape for others. Beside the file's bytes there
// are rows up to a multiple of 16 and, where k is no multiple of 256, the rest of the last group's head.
func Tile16Planes(t int32, rows, k int) (Planes, error) {
	f, err := formatOf(t, k)
	if err != nil {
		return Planes{}, err
	}
	if f.data == 0 || rows <= 0 {
		return Planes{}, shape("layout tile16 for %d rows of weight type %d", rows, t)
	}
	tiles, groups := int64(ceil(rows, tileRows)), int64(ceil(k, groupLen))
	return Planes{
		Data: tiles * int64(k/chunkLen) * int64(f.data/8) * tileRows,
		Head: tiles * groups * int64(f.head) * tileRows,
		Tail: tiles * groups * int64(f.tail) * tileRows,
	}, nil
}

// A run is bytes of a group that stay together in both layouts.
type run struct {
	plane int // 0 data, 1 head, 2 tail
	at    int // in the group's bytes of the plane
	from  int // in the group's bytes of the file
	n     int
}

// runs lists where the bytes of a group of so many blocks are.
func (f format) runs(t int32, blocks int) (list []run) {
	switch t {
	case Q4_K:
		return []run{{1, 0, 0, 16}, {0, 0, 16, 128}}
	case Q5_K:
		return []run{{1, 0, 0, 48}, {0, 0, 48, 128}}
	case Q6_K:
		return []run{{0, 0, 0, 128}, {1, 16, 128, 64}, {1, 0, 192, 16}, {2, 0, 208, 2}}
	}
	levels := f.data / 8
	scales, fifths := 2, f.head-16
	if t == Q4_1 || t == Q5_1 {
		scales, fifths = 4, f.head-32
	}
	for b := range blocks {
		at := b * f.bytes
		list = append(list, run{1, b * scales, at, scales}, run{0, b * levels, at + f.bytes - levels, levels})
		if fifths > 0 {
			list = append(list, run{1, 8*scales + 4*b, at + scales, 4})
		}
	}
	return list
}

// Tile16 is the rule of the repacking kernels in Go: a weight [rows, k] as in the file, rows without padding, to planes.
func Tile16(t int32, rows, k int, file []byte) ([]byte, error) {
	planes, err := Tile16Planes(t, rows, k)
	if err != nil {
		return nil, err
	}
	out := make([]byte, planes.Bytes())
	return out, walkTile16(t, rows, k, planes, len(file), func(plane, file0, n int) { copy(out[plane:][:n], file[file0:]) })
}

// Untile16 is its inverse.
func Untile16(t int32, rows, k int, planes []byte) ([]byte, error) {
	sizes, err := Tile16Planes(t, rows, k)
	if err != nil {
		return nil, err
	}
	if int64(len(planes)) != sizes.Bytes() {
		return nil, shape("planes of %d bytes instead of %d", len(planes), sizes.Bytes())
	}
	f := formats[t]
	out := make([]byte, rows*(k/f.elements)*f.bytes)
	return out, walkTile16(t, rows, k, sizes, len(out), func(plane, file, n int) { copy(out[file:][:n], planes[plane:]) })
}

// walkTile16 calls move for every run of at most 16 bytes: where it is in the planes and in the file.
func walkTile16(t int32, rows, k int, planes Planes, size int, move func(plane, file, n int)) error {
	f := formats[t]
	rowBytes := k / f.elements * f.bytes
	if size != rows*rowBytes {
		return shape("%d bytes instead of %d rows of %d", size, rows, rowBytes)
	}
	groups, blocks := ceil(k, groupLen), groupLen/f.elements
	begin := [3]int{0, int(planes.Data), int(planes.Data + planes.Head)}
	inTile := [3]int{k / chunkLen * f.data / 8 * tileRows, groups * f.head * tileRows, groups * f.tail * tileRows}
	inGroup := [3]int{f.data, f.head, f.tail}
	for g := range groups {
		list := f.runs(t, min(blocks, k/f.elements-g*blocks))
		for r := range rows {
			for _, m := range list {
				unit := 16
				if m.plane == 2 {
					unit = 2
				}
				base := begin[m.plane] + r/tileRows*inTile[m.plane] + g*inGroup[m.plane]*tileRows + r%tileRows*unit
				for i := 0; i < m.n; {
					at := m.at + i
					n := min(m.n-i, unit-at%unit)
					move(base+at/unit*unit*tileRows+at%unit, r*rowBytes+g*blocks*f.bytes+m.from+i, n)
					i += n
				}
			}
		}
	}
	return nil
}
