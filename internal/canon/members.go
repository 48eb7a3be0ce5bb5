package canon

import (
	"bytes"
)

// Members tells the members of a JSON object as encoding/json writes it, without white space. It looks no further
// into a value than to find its end: whoever reads the value checks it.
func Members(doc []byte, f func(name string, value []byte)) bool {
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return false
	}
	for i := 1; i < len(doc)-1; {
		end := stringEnd(doc, i)
		if end < 0 || end >= len(doc) || doc[end] != ':' {
			return false
		}
		last := valueEnd(doc, end+1)
		if last < 0 || last >= len(doc) || doc[last] != ',' && last != len(doc)-1 {
			return false
		}
		f(string(doc[i+1:end-1]), doc[end+1:last])
		i = last + 1
	}
	return true
}

// stringEnd is where the string that begins at i has ended; -1 where none does.
func stringEnd(doc []byte, i int) int {
	if i >= len(doc) || doc[i] != '"' {
		return -1
	}
	for at := i + 1; ; {
		n := bytes.IndexByte(doc[at:], '"')
		if n < 0 {
			return -1
		}
		escapes := 0
		for k := at + n - 1; k > i && doc[k] == '\\'; k-- {
			escapes++
		}
		if at += n + 1; escapes%2 == 0 {
			return at
		}
	}
}

// valueEnd is where the value that begins at i has ended; -1 where none does.
func valueEnd(doc []byte, i int) int {
	for depth := 0; i < len(doc); {
		switch doc[i] {
		case '"':
			if i = stringEnd(doc, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}
