package tokenizer

import "unicode/utf8"

// GPT-2's byte alphabet gives each byte a printable character, so that a vocabulary can be a list of strings: the bytes
// 21-7E, A1-AC and AE-FF stand for themselves (as code points), and the other 68 become U+0100, U+0101, ... in order.

// alphabetRunes is the number of code points that the alphabet reaches into: up to U+0143.
const alphabetRunes = 0x100 + 68

// runeByte maps a code point of the alphabet to its byte, or to -1.
var runeByte = func() (m [alphabetRunes]int16) {
	other := 0x100
	for b := 0; b < 0x100; b++ {
		if b >= 0x21 && b <= 0x7e || b >= 0xa1 && b != 0xad {
			m[b] = int16(b)
			continue
		}
		m[b] = -1
		m[other] = int16(b)
		other++
	}
	return m
}()

// alphabetByte decodes the first character of s. n is its length in s, or 0 if it isn't of the alphabet (or s is empty).
func alphabetByte(s string) (b byte, n int) {
	if s == "" {
		return 0, 0
	}
	r, n := rune(s[0]), 1
	if r >= utf8.RuneSelf {
		r, n = utf8.DecodeRuneInString(s)
	}
	if r >= alphabetRunes || runeByte[r] < 0 {
		return 0, 0
	}
	return byte(runeByte[r]), n
}

// appendAlphabet appends the bytes that s spells. ok is false, and dst unchanged, if s holds a character outside the alphabet.
func appendAlphabet(dst []byte, s string) (_ []byte, ok bool) {
	start := len(dst)
	for len(s) > 0 {
		b, n := alphabetByte(s)
		if n == 0 {
			return dst[:start], false
		}
		dst = append(dst, b)
		s = s[n:]
	}
	return dst, true
}
