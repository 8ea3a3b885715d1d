//go:build amd64 && !noasm

package plain

func setVector(on bool) { useAVX2 = on && Vector }
