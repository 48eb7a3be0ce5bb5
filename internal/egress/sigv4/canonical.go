package sigv4

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// once are the services that encode a path once, and leave its dots: the keys of objects are any text.
var once = []string{"s3", "s3-object-lambda", "s3-outposts", "s3express"}

// canonical is the text of a request that is signed.
func (s *Signed) canonical(r *http.Request) (string, error) {
	if strings.HasPrefix(r.RequestURI, "/") && r.URL.RequestURI() != r.RequestURI {
		return "", refused("its path has characters that are not encoded").WithRemedy("encode all but letters, digits and - . _ ~")
	}
	path := r.URL.EscapedPath()
	if slices.Contains(once, s.service) {
		path = r.URL.Path
	} else {
		path = normal(path)
	}
	query, ok := canonicalQuery(r.URL.RawQuery)
	if !ok {
		return "", refused("its query cannot be read").WithRemedy("encode all but letters, digits and - . _ ~")
	}
	var b strings.Builder
	b.WriteString(r.Method + "\n" + escape(cmp.Or(path, "/"), true) + "\n" + query + "\n")
	for _, name := range s.headers {
		values, ok := valuesOf(r, name)
		if !ok {
			return "", refused("its signed header %s is not there", name).WithRemedy("send what was signed")
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	b.WriteString("\n" + strings.Join(s.headers, ";") + "\n" + s.payload)
	return b.String(), nil
}

// valuesOf returns a header's values as they are signed.
func valuesOf(r *http.Request, name string) ([]string, bool) {
	var values []string
	switch name {
	case "host":
		values = []string{r.Host}
	case "content-length": // net/http writes it
		if r.ContentLength >= 0 {
			values = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
	case "transfer-encoding": // and takes it out
		values = slices.Clone(r.TransferEncoding)
	default:
		values = slices.Clone(r.Header[textproto.CanonicalMIMEHeaderKey(name)])
	}
	for i, v := range values {
		values[i] = strings.Join(strings.FieldsFunc(v, func(c rune) bool { return c == ' ' || c == '\t' }), " ")
	}
	return values, len(values) > 0
}

// normal is a path without empty parts, "." and "..".
func normal(path string) string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, part)
		}
	}
	out := "/" + strings.Join(parts, "/")
	if len(parts) > 0 && (strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..")) {
		out += "/"
	}
	return out
}

// canonicalQuery is a query with its parameters in order, each encoded in the one way.
func canonicalQuery(raw string) (string, bool) {
	type pair struct{ name, value string }
	var pairs []pair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		n, e1 := unescape(name)
		v, e2 := unescape(value)
		if !e1 || !e2 {
			return "", false
		}
		pairs = append(pairs, pair{escape(n, false), escape(v, false)})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	var out []string
	for _, p := range pairs {
		out = append(out, p.name+"="+p.value)
	}
	return strings.Join(out, "&"), true
}

const upperHex = "0123456789ABCDEF"

// escape encodes all but what RFC 3986 leaves, and slashes where they are to stay.
func escape(s string, slashes bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/' && slashes:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// unescape decodes a part of a query, in which "+" is a space.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '+':
			b.WriteByte(' ')
		case '%':
			if i+2 >= len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
