package tokenizer

import "unicode/utf8"

// Stream decodes tokens one after another into whole code points. Make one with NewStream for each answer.
type Stream struct {
	t           *Tokenizer
	skipControl bool
	buf         []byte // the start of a code point, between calls; then a token's bytes
	out         []byte
}

// NewStream returns a decoder with nothing pending. With skipControl, control tokens give no text.
func (t *Tokenizer) NewStream(skipControl bool) *Stream {
	return &Stream{t: t, skipControl: skipControl}
}

// Push takes the next token and returns the text that is certain by now: valid UTF-8, perhaps empty. Bytes that can't be part of a valid
// code point give U+FFFD as soon as that is certain. An id outside the vocabulary is an error that wraps ErrToken and changes nothing.
func (s *Stream) Push(id int32) (string, error) {
	if s.skipControl && s.t.IsControl(id) {
		return s.Flush(), nil // a character doesn't span a control token
	}
	buf, err := s.t.AppendToken(s.buf, id)
	if err != nil {
		return "", err
	}
	mem := buf
	s.out = s.out[:0]
	for len(buf) > 0 {
		r, n := utf8.DecodeRune(buf)
		if r == utf8.RuneError && n == 1 {
			if !utf8.FullRune(buf) {
				break
			}
			n = invalidPrefix(buf)
			s.out = utf8.AppendRune(s.out, utf8.RuneError)
		} else {
			s.out = append(s.out, buf[:n]...)
		}
		buf = buf[n:]
	}
	s.buf = mem[:copy(mem, buf)]
	return string(s.out), nil
}

// Flush ends the text: a code point that never became whole gives one U+FFFD. The stream can be used again after it.
func (s *Stream) Flush() string {
	if len(s.buf) == 0 {
		return ""
	}
	s.buf = s.buf[:0]
	return string(utf8.RuneError)
}

// invalidPrefix returns the length of what one U+FFFD replaces at the start of b, which isn't a valid code point: the longest part
// that could have been the start of one, else one byte (Unicode 15, section 3.9, "maximal subpart").
func invalidPrefix(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n]) {
		if utf8.FullRune(b[:n+1]) {
			break
		}
		n++
	}
	return n
}
