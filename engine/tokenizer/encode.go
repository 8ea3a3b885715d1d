package tokenizer

import "strings"

// Encode returns the ids of text. Control tokens in it are recognised only if special is true; otherwise "<|im_end|>" is ten
// characters of text. User-defined tokens are always recognised. BOS is not added.
func (t *Tokenizer) Encode(text string, special bool) []int32 {
	return t.AppendEncode(nil, text, special)
}

// AppendEncode appends what Encode returns to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, special bool) []int32 {
	m := t.matcher(special)
	done := 0
	for at := 0; ; {
		start, end, id := m.find(text, at)
		if start < 0 {
			return t.appendText(dst, text[done:])
		}
		dst = t.appendText(dst, text[done:start])
		dst = append(dst, id)
		done, at = end, end
	}
}

// Part is a piece of a prompt.
type Part struct {
	Text string
	// Special says that control tokens in Text are recognised: it comes from a template, not from a user.
	Special bool
}

// EncodeParts encodes the parts as one text: words run over the borders between parts, so the ids are those of the joined text, but an added
// token is recognised only inside a part, and a control token only inside a special one. So no user text can forge a turn of the
// conversation, not even together with the template's text around it.
func (t *Tokenizer) EncodeParts(parts ...Part) []int32 {
	var joined strings.Builder
	for _, p := range parts {
		joined.WriteString(p.Text)
	}
	text := joined.String()
	var dst []int32
	done, base := 0, 0
	for _, p := range parts {
		m := t.matcher(p.Special)
		for at := 0; ; {
			start, end, id := m.find(p.Text, at)
			if start < 0 {
				break
			}
			dst = t.appendText(dst, text[done:base+start])
			dst = append(dst, id)
			done, at = base+end, end
		}
		base += len(p.Text)
	}
	return t.appendText(dst, text[done:])
}

func (t *Tokenizer) matcher(special bool) *matcher {
	if special {
		return &t.added
	}
	return &t.userOnly
}

// appendText encodes text without added tokens.
func (t *Tokenizer) appendText(dst []int32, text string) []int32 {
	<-t.built
	for i := 0; i < len(text); {
		end := t.next(text, i)
		dst = t.appendWord(dst, text[i:end])
		i = end
	}
	return dst
}
