package gguf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// fingerprintSample is the number of bytes hashed at a tensor's start, middle and end.
const fingerprintSample = 64

// Fingerprint identifies the model's content, as 64 hex digits. It is the SHA-256 of, for each file of the model in
// order: its size, its whole header (all metadata, all tensor names, shapes and types), and of every tensor 64 bytes at
// its start, its middle and its end. So it costs milliseconds, whatever the size. Two files with other metadata, other
// tensors or (as training or quantising anew changes nearly every byte) other weights have different fingerprints. It is no
// protection against a forger: bytes between the samples can be changed without a trace. The first call computes it.
func (f *File) Fingerprint() (string, error) {
	if f.closed {
		return "", fmt.Errorf("gguf: fingerprint: %w", ErrClosed)
	}
	return f.fingerprint()
}

func (f *File) computeFingerprint() (string, error) {
	h := sha256.New()
	h.Write([]byte("minfer gguf fingerprint 1\n"))
	sample := make([]byte, fingerprintSample)
	for _, s := range f.shards {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(s.src.size())))
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s.header))))
		h.Write(s.header)
		for _, t := range s.tensors {
			n := min(t.Size, fingerprintSample)
			for _, at := range [...]int64{0, (t.Size - n) / 2, t.Size - n} {
				if err := readFullAt(s.src, sample[:n], t.Offset+at); err != nil {
					return "", fmt.Errorf("gguf: fingerprint: tensor %q: %w", t.Name, err)
				}
				h.Write(sample[:n])
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
