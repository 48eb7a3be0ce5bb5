package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"palyra/internal/tool"
)

// result is the answer in the form that the caller gets.
type result struct {
	URL        string            `json:"url"` // the one that answered
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	HeadersCut bool              `json:"headers_truncated,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyB64    *string           `json:"body_b64,omitempty"`
	Truncated  bool              `json:"truncated"`
	Redirects  []string          `json:"redirects"`
	Bytes      int               `json:"bytes"` // of the body as delivered, before base64
}

// deliver turns an answer into the caller's result, and closes it.
func (x *exchange) deliver(h hop, answer *http.Response) (json.RawMessage, error) {
	defer answer.Body.Close()
	if answer.StatusCode < 200 {
		return nil, failed("%s wants to go on with another protocol", h.target.hostPort)
	}
	data, cut, err := x.read(h, answer)
	if err != nil {
		return nil, err
	}
	r := result{URL: x.lent.Text(h.target.url.String()), Status: answer.StatusCode, Truncated: cut, Redirects: x.redirects}
	if r.Redirects == nil {
		r.Redirects = []string{}
	}
	x.lent.Head(answer.Header)
	r.Headers, r.HeadersCut = delivered(answer.Header)
	if text, ok := asText(data, cut); ok {
		r.Body, r.Bytes = &text, len(text)
	} else {
		b64 := base64.StdEncoding.EncodeToString(data)
		r.BodyB64, r.Bytes = &b64, len(data)
	}
	return tool.Encode(r)
}

// asText is the body as text. It drops the broken last character of a body that was cut.
func asText(data []byte, cut bool) (string, bool) {
	for back := 0; cut && back < utf8.UTFMax && back < len(data); back++ {
		last := data[len(data)-1-back]
		if utf8.RuneStart(last) {
			if !utf8.FullRune(data[len(data)-1-back:]) {
				data = data[:len(data)-1-back]
			}
			break
		}
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", false
	}
	return string(data), true
}

// read returns the body, unpacked, up to the size that was asked for.
func (x *exchange) read(h hop, answer *http.Response) (data []byte, cut bool, err error) {
	if h.method == http.MethodHead || answer.StatusCode == http.StatusNoContent || answer.StatusCode == http.StatusNotModified {
		return nil, false, nil
	}
	packed := &bounded{from: answer.Body, left: x.most + slack}
	var body io.Reader = packed
	switch strings.ToLower(answer.Header.Get("Content-Encoding")) {
	case "gzip", "x-gzip":
		unpack, err := gzip.NewReader(packed)
		switch {
		case errors.Is(err, io.EOF) && !packed.spent: // nothing came, packed or not
			return nil, false, nil
		case packed.spent:
			return nil, true, nil
		case err != nil:
			return nil, false, unread(h.target, err)
		}
		body = unpack
		answer.Header.Del("Content-Encoding") // the delivered body is not packed
		answer.Header.Del("Content-Length")
	}
	veiled := x.lent.Reader(io.NopCloser(body)) // before it is cut: part of a value would be none
	defer veiled.Close()
	data, err = io.ReadAll(io.LimitReader(veiled, x.most+1))
	switch {
	case int64(len(data)) > x.most:
		return data[:x.most], true, nil
	case packed.spent:
		return data, true, nil
	case err != nil:
		return nil, false, unread(h.target, err)
	}
	return data, false, nil
}

// slack is how much longer than the caller's limit a packed body may be: packing can make things
// longer, but a stream that unpacks to nothing must end.
const slack = 64 << 10

// bounded ends a stream after so many bytes, and sets spent then.
type bounded struct {
	from  io.Reader
	left  int64
	spent bool
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.spent = true
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
