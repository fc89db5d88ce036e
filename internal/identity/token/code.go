package token

import (
	"encoding/base64"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	// codeAlphabet has no letter that is mistaken for another, or for a digit.
	codeAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	codeGroup    = 4
	codeChars    = 16 // 80 bits
)

// NewCode makes a login code, with its hash: four groups of four letters and digits, to be typed by hand.
func NewCode(e *env.Env) (text string, hash Hash) {
	random, _ := base64.RawURLEncoding.DecodeString(e.Token(codeChars)) // it is base64url by contract
	letters := make([]byte, 0, codeChars+codeChars/codeGroup-1)
	for i := range codeChars {
		if i > 0 && i%codeGroup == 0 {
			letters = append(letters, '-')
		}
		letters = append(letters, codeAlphabet[random[i]%byte(len(codeAlphabet))]) // 32 divides 256
	}
	text = string(letters)
	return text, hashOf(strings.ReplaceAll(text, "-", ""))
}

// ParseCode answers the hash of a login code as somebody typed it: in any case, with or without dashes and spaces.
func ParseCode(text string) (Hash, bool) {
	letters := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	if len(letters) != codeChars || strings.Trim(letters, codeAlphabet) != "" {
		return "", false
	}
	return hashOf(letters), true
}
