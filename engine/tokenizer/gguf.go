package tokenizer

import (
	"fmt"

	"github.com/minfer-go/minfer/gguf"
)

// FromGGUF makes a tokenizer from the keys tokenizer.ggml.* of f. It copies what it keeps: f may be closed afterwards.
//
// Errors wrap ErrUnsupported (another kind of tokenizer), ErrCorrupt, or gguf's sentinels.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	v, err := vocabFromGGUF(f)
	if err != nil {
		return nil, err
	}
	return New(v)
}

func vocabFromGGUF(f *gguf.File) (v Vocab, err error) {
	model, err := gguf.Need[string](f, "tokenizer.ggml.model")
	if err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	if model != "gpt2" {
		return v, fmt.Errorf("tokenizer: tokenizer.ggml.model %.80q: %w; supported: gpt2", model, ErrUnsupported)
	}
	pre, ok, err := gguf.Get[string](f, "tokenizer.ggml.pre")
	if err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	if !ok {
		return v, fmt.Errorf("tokenizer: tokenizer.ggml.pre is missing, so how words are cut is unknown: %w", ErrUnsupported)
	}
	// A foreign vocabulary is refused before it is read.
	if _, ok := preTokenizers[pre]; !ok {
		return v, errPre(pre)
	}
	v = Vocab{Pre: pre}
	if v.Tokens, err = gguf.Need[[]string](f, "tokenizer.ggml.tokens"); err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	if v.Merges, err = gguf.Need[[]string](f, "tokenizer.ggml.merges"); err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	if v.Types, _, err = gguf.Get[[]int32](f, "tokenizer.ggml.token_type"); err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	if v.AddBOS, err = gguf.GetOr(f, "tokenizer.ggml.add_bos_token", false); err != nil {
		return v, fmt.Errorf("tokenizer: %w", err)
	}
	for _, id := range []struct {
		key string
		to  *int32
	}{
		{"tokenizer.ggml.bos_token_id", &v.BOS},
		{"tokenizer.ggml.eos_token_id", &v.EOS},
		{"tokenizer.ggml.eot_token_id", &v.EOT},
	} {
		if *id.to, err = gguf.GetOr(f, id.key, NoToken); err != nil {
			return v, fmt.Errorf("tokenizer: %w", err)
		}
	}
	return v, nil
}
