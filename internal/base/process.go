package base

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// ProcessName returns the name of this process: that of its host and its number, such as shop:42,
// as [CleanText] of at most 80 bytes. A host without a name is abide.
var ProcessName = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "abide"
	}
	return CleanText(host, 64) + ":" + strconv.Itoa(os.Getpid())
})

// CleanText returns text with a question mark for each control character and each byte that is not
// UTF-8, cut to at most so many bytes.
func CleanText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
