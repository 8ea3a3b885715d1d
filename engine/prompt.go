package engine

import (
	"fmt"

	"github.com/minfer-go/minfer/engine/chat"
	"github.com/minfer-go/minfer/engine/tokenizer"
	"github.com/minfer-go/minfer/gguf"
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
	parts := make([]tokenizer.Part, len(segments))
	for i, s := range segments {
		parts[i] = tokenizer.Part{Text: s.Text, Special: !s.Literal}
		text += s.Text
	}
	return m.withBOS(m.tok.EncodeParts(parts...)), text, nil
}

// RawPrompt encodes text as it is, special tokens in it being recognised if special is true.
func (m *Model) RawPrompt(text string, special bool) []int32 {
	return m.withBOS(m.tok.Encode(text, special))
}

// withBOS puts the beginning-of-sequence token first when the metadata asks for it and it isn't there.
func (m *Model) withBOS(ids []int32) []int32 {
	bos, want := m.tok.BOS()
	if !want || len(ids) > 0 && ids[0] == bos {
		return ids
	}
	return append([]int32{bos}, ids...)
}

const templateKey = "tokenizer.chat_template"

// CompileTemplate makes the chat template of a file that isn't loaded as a model: override if it isn't empty, else the
// file's, else ChatML with a notice.
func CompileTemplate(f *gguf.File, tok *tokenizer.Tokenizer, override string, notice func(string)) (*chat.Template, error) {
	source := override
	if source == "" {
		var ok bool
		var err error
		if source, ok, err = gguf.Get[string](f, templateKey); err != nil {
			return nil, err
		}
		if !ok {
			notice("the model has no chat template: ChatML is used")
			source = chat.ChatML
		}
	}
	t, err := chat.Compile(source, chat.Options{BOS: tokenText(tok, bosOf(tok)), EOS: tokenText(tok, tok.EOS())})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return t, nil
}

func bosOf(tok *tokenizer.Tokenizer) int32 { id, _ := tok.BOS(); return id }

func tokenText(tok *tokenizer.Tokenizer, id int32) string { return string(tok.TokenBytes(id)) }
