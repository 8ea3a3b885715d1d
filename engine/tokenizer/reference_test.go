package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ids and texts as HF tokenizers gives them.
func TestReferenceStrings(t *testing.T) {
	for name, count := range map[string]int{"qwen3": 223, "smollm2": 146, "tiny": 58} {
		tok, samples := loadTokenizer(t, name), loadSamples(t, name)
		require.Len(t, samples, count)
		for i, s := range samples {
			label := fmt.Sprintf("%s %d (%s) %.60q", name, i, s.Cat, s.Text)
			assert.Equal(t, s.want(), append([]int32{}, tok.Encode(s.Text, true)...), label)
			if s.SpecialOff != nil {
				nfc := strings.ReplaceAll(s.Text, "e\u0301", "é") // these ids are of the normalised text
				assert.Equal(t, s.SpecialOff, tok.Encode(nfc, false), "special off: "+label)
			}
			text, err := tok.Decode(s.want())
			require.NoError(t, err)
			assert.Equal(t, s.Text, text, label)
			text, err = tok.Decode(tok.Encode(s.Text, false))
			require.NoError(t, err)
			assert.Equal(t, s.Text, text, label)
		}
	}
}

func TestSpecialIDs(t *testing.T) {
	qwen, smol, tiny := loadTokenizer(t, "qwen3"), loadTokenizer(t, "smollm2"), loadTokenizer(t, "tiny")
	assert.Equal(t, []int32{151643, 151645}, qwen.EOG())
	assert.Equal(t, []int32{0, 2}, smol.EOG())
	assert.Equal(t, []int32{504, 506}, tiny.EOG())
	assert.True(t, qwen.IsEOG(151645))
	assert.False(t, qwen.IsEOG(151644))
	assert.Equal(t, int32(151645), qwen.EOS())
	bos, add := qwen.BOS()
	assert.Equal(t, int32(151643), bos)
	assert.False(t, add)
	assert.True(t, qwen.IsControl(151644))
	assert.False(t, qwen.IsControl(151667), "<think> is text")
	assert.False(t, qwen.IsControl(-1))
	assert.Equal(t, int32(0), qwen.Type(151936))
	id, ok := qwen.AddedToken("<|im_start|>")
	assert.True(t, ok)
	assert.Equal(t, int32(151644), id)
	_, ok = qwen.AddedToken("the")
	assert.False(t, ok)
	_, ok = qwen.AddedToken("<|im_start|>x")
	assert.False(t, ok)
}
