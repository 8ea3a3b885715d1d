package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/stretchr/testify/require"
)

func readGzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

func loadVocab(t testing.TB, name string) Vocab {
	t.Helper()
	f, err := gguf.OpenBytes(readGzip(t, name+"-vocab.gguf.gz"))
	require.NoError(t, err)
	defer f.Close()
	v, err := vocabFromGGUF(f)
	require.NoError(t, err)
	return v
}

var loaded sync.Map

// loadTokenizer keeps one of each: they are immutable.
func loadTokenizer(t testing.TB, name string) *Tokenizer {
	t.Helper()
	if tok, ok := loaded.Load(name); ok {
		return tok.(*Tokenizer)
	}
	tok, err := New(loadVocab(t, name))
	require.NoError(t, err)
	loaded.Store(name, tok)
	return tok
}

type sampleText struct {
	Cat        string  `json:"cat"`
	Text       string  `json:"text"`
	IDs        []int32 `json:"ids"`
	NoNFC      []int32 `json:"ids_no_nfc"`
	SpecialOff []int32 `json:"ids_special_off"`
}

// want returns the ids that this package should give: without normalisation.
func (s sampleText) want() []int32 {
	if s.NoNFC != nil {
		return s.NoNFC
	}
	return s.IDs
}

func loadSamples(t testing.TB, name string) (s []sampleText) {
	t.Helper()
	require.NoError(t, json.Unmarshal(readGzip(t, name+"-encode.json.gz"), &s))
	return s
}
