package approval

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"palyra"
	"palyra/internal/canon"
)

// Report is what a verified export says of itself.
type Report struct {
	Format     Format           `json:"format"`
	Count      int64            `json:"count"`
	Pending    int64            `json:"pending"` // of them
	By         palyra.Principal `json:"by"`
	ExportedAt string           `json:"exported_at"`
	KeyID      string           `json:"key_id"`
	PublicKey  string           `json:"public_key"` // the one of keys that verified
	Head       palyra.Digest    `json:"head"`       // hash of the last approval's line
}

// maxLine bounds a line of an export.
const maxLine = 64 << 20

// VerifyExport checks an export without a daemon: framing, encoding, the chain of hashes, each plan's digest, and
// the trailer's signature by one of keys (base64 Ed25519 public keys). Any changed byte is noticed. It does not
// check the approvers' own signatures, which the records carry.
//
// The error is Invalid with ReasonVerifyFailed and names the line; the report
// then holds what was read so far and proves nothing.
func VerifyExport(r io.Reader, keys []string) (Report, error) {
	trusted, err := parseKeys(keys)
	if err != nil {
		return Report{}, err
	}
	v := &verifier{lines: &lines{r: bufio.NewReaderSize(r, 64<<10)}}
	if err := v.header(); err != nil {
		return v.report, v.failed(err)
	}
	for {
		line, last, err := v.lines.next()
		if err != nil {
			return v.report, v.failed(err)
		}
		if last {
			return v.report, v.failed(v.trailer(line, trusted))
		}
		if err := v.approval(line); err != nil {
			return v.report, v.failed(err)
		}
	}
}

func parseKeys(keys []string) (map[string]ed25519.PublicKey, error) {
	out := map[string]ed25519.PublicKey{}
	for _, k := range keys {
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(k))
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, invalid(palyra.ReasonMalformedInput, "a key is not a base64 Ed25519 public key")
		}
		out[strings.TrimSpace(k)] = raw
	}
	if len(out) == 0 {
		return nil, invalid(palyra.ReasonMalformedInput, "an export can only be verified with a key").
			WithRemedy("get it with 'palyra keys export' from the daemon that made the export")
	}
	return out, nil
}

type verifier struct {
	lines  *lines
	prev   palyra.Digest
	said   int64 // count of the header
	report Report
}

func (v *verifier) failed(err error) error {
	if err == nil {
		return nil
	}
	return invalid(palyra.ReasonVerifyFailed, "the export is not valid: line %d: %v", v.lines.n, err).WithCause(err)
}

func (v *verifier) header() error {
	line, last, err := v.lines.next()
	if err != nil {
		return err
	}
	var h exportHeader
	if err := decodeLine(line, &h); err != nil {
		return err
	}
	switch {
	case last:
		return errors.New("nothing follows the header")
	case h.Kind != kindHeader || h.Format != exportFormat:
		return errors.New("not an export of approvals")
	case h.Layout != v.lines.format():
		return errors.New("the layout was changed")
	case h.Count < 0:
		return errors.New("negative count")
	}
	v.prev, v.said = hashLine(line), h.Count
	v.report = Report{Format: h.Layout, By: h.By, ExportedAt: h.ExportedAt}
	return nil
}

func (v *verifier) approval(line []byte) error {
	var l exportLine
	if err := decodeLine(line, &l); err != nil {
		return err
	}
	switch {
	case l.Kind != kindApproval || l.Seq != v.report.Count+1:
		return errors.New("an approval is missing or out of order")
	case l.Prev != v.prev:
		return errors.New("the line before it was changed")
	}
	if err := checkPlanDigest(l.Approval); err != nil {
		return err
	}
	v.prev = hashLine(line)
	v.report.Count++
	if l.Approval.Pending() {
		v.report.Pending++
	}
	return nil
}

func (v *verifier) trailer(line []byte, keys map[string]ed25519.PublicKey) error {
	var t exportTrailer
	if err := decodeLine(line, &t); err != nil {
		return err
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(t.Sig)
	switch {
	case t.Kind != kindTrailer:
		return errors.New("the trailer is missing")
	case t.Prev != v.prev:
		return errors.New("the line before it was changed")
	case t.Count != v.report.Count || t.Count != v.said:
		return errors.New("an approval is missing")
	case err != nil || len(sig) != ed25519.SignatureSize:
		return errors.New("bad signature")
	}
	msg, err := t.signed()
	if err != nil {
		return err
	}
	for text, key := range keys {
		if ed25519.Verify(key, msg, sig) {
			v.report.KeyID, v.report.PublicKey, v.report.Head = t.KeyID, text, v.prev
			return nil
		}
	}
	return errors.New("signed by none of the keys given")
}

// decodeLine reads a line and refuses every spelling but the one canon.JSON
// writes: with it go repeated keys, other cases of a name, and white space.
func decodeLine(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	again, err := canon.JSON(into)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, line) {
		return errors.New("not in its one encoding")
	}
	return nil
}

// lines takes the framing of either layout off.
type lines struct {
	r     *bufio.Reader
	n     int // of the line last read, as an editor counts
	array bool
}

func (l *lines) format() Format {
	if l.array {
		return JSON
	}
	return NDJSON
}

// next returns a line without its framing, and whether it is the last; then
// nothing but the end of the framing follows it.
func (l *lines) next() (line []byte, last bool, err error) {
	line, err = l.read()
	if err == nil && l.n == 1 && string(line) == "[" {
		l.array = true
		line, err = l.read()
	}
	if err != nil {
		return nil, false, err
	}
	if l.array {
		body, more := bytes.CutSuffix(line, []byte(","))
		if more {
			return body, false, nil
		}
		if end, err := l.read(); err != nil || string(end) != "]" {
			return nil, false, errors.New("the array is cut short")
		}
	}
	_, err = l.r.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return line, true, nil
	case err != nil:
		return nil, false, err
	case l.array:
		return nil, false, errors.New("data after the array")
	}
	return line, false, nil
}

// read returns a line without its newline, which must be there.
func (l *lines) read() ([]byte, error) {
	l.n++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, errors.New("the line is too long")
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("the export is cut short")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
