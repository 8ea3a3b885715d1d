package engine

import (
	"fmt"

	"github.com/minfer-go/minfer/engine/chat"
)

// ChatPrompt renders a conversation with the model's template and encodes it. Special tokens are recognised in the
// template's own text only: what a user or a tool wrote is literal.
func (m *Model) ChatPrompt(in chat.Input) (ids []int32, text string, err error) {
	t, err := m.Template()
	if err != nil {
		return nil, "", err
	}
	segments, err := t.Segments(in)
	if err != nil {
		return nil, "", err
	}
	for _, s := range segments {
		part, err := m.tok.Encode(s.Text, !s.Literal)
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, part...)
		text += s.Text
	}
	return m.withBOS(ids), text, nil
}

// RawPrompt encodes text as it is, special tokens in it being recognised if special is true.
func (m *Model) RawPrompt(text string, special bool) ([]int32, error) {
	ids, err := m.tok.Encode(text, special)
	if err != nil {
		return nil, fmt.Errorf("engine: prompt: %w", err)
	}
	return m.withBOS(ids), nil
}

// withBOS puts the beginning-of-sequence token first when the metadata asks for it and it isn't there.
func (m *Model) withBOS(ids []int32) []int32 {
	bos, want := m.tok.BOS()
	if !want || len(ids) > 0 && ids[0] == bos {
		return ids
	}
	return append([]int32{bos}, ids...)
}
