package tokenizer

import "fmt"

// Decode returns the text of ids, control tokens included, byte for byte: it is valid UTF-8 if the ids' bytes are. An id outside
// the vocabulary is an error that wraps ErrToken.
func (t *Tokenizer) Decode(ids []int32) (string, error) {
	buf := make([]byte, 0, 4*len(ids))
	for i, id := range ids {
		var err error
		if buf, err = t.AppendToken(buf, id); err != nil {
			return "", fmt.Errorf("%w (position %d)", err, i)
		}
	}
	return string(buf), nil
}

// TokenBytes returns the bytes of one token, which may be part of a character; nil for an id outside the vocabulary.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	b, err := t.AppendToken([]byte{}, id)
	if err != nil {
		return nil
	}
	return b
}

// AppendToken appends the bytes of one token to dst. An id outside the vocabulary is an error that wraps ErrToken.
//
// Normal tokens are spelled in GPT-2's byte alphabet, others are plain text. A normal token with a character outside the alphabet
// is plain text as a whole, as in HF.
func (t *Tokenizer) AppendToken(dst []byte, id int32) ([]byte, error) {
	if !t.valid(id) {
		return dst, fmt.Errorf("tokenizer: token %d: %w: the vocabulary has %d", id, ErrToken, len(t.tokens))
	}
	text := t.tokens[id]
	if typ := t.Type(id); typ != TypeControl && typ != TypeUserDefined && typ != TypeUnused {
		if b, ok := appendAlphabet(dst, text); ok {
			return b, nil
		}
	}
	return append(dst, text...), nil
}
