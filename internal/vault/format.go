package vault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
	"palyra/secrets"
)

// An export is a file of age behind a passphrase. Its text is lines of JSON: a head, then each version of each secret in
// the order of scope, name and version, then each binding in the order of names. There is one way to write it, and nothing else is read.
const (
	exportFormat  = "palyra-vault-export"
	exportVersion = 2
	exportFirst   = 1         // the format without bindings, which is still read
	maxLine       = 128 << 10 // of the text: a value in base64, and what is told of it
)

// exportHead is the first line of an export.
type exportHead struct {
	Format   string           `json:"format"`
	Version  int64            `json:"version"`
	By       palyra.Principal `json:"exported_by"`
	At       time.Time        `json:"exported_at"`
	Versions int64            `json:"versions"`           // how many lines of secrets follow
	Bindings int64            `json:"bindings,omitempty"` // and of bindings
}

// exportLine is a version of a secret in an export.
type exportLine struct {
	secrets.Info
	Value []byte `json:"value_b64"`
}

func (l exportLine) ident() ident { return ident{string(l.Scope), l.Name, l.Version} }

// secret names the secret that the line is a version of.
func (l exportLine) secret() ident { return ident{string(l.Scope), l.Name, 0} }

// writeLine writes one line and forgets it.
func writeLine(w io.Writer, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	defer clear(text)
	_, err = w.Write(text)
	return err
}

// readExport reads the text of an export and calls f with each version, and bound with each binding, in order. f must not
// keep the value.
func readExport(r io.Reader, f func(exportLine) error, bound func(secrets.Binding) error) error {
	buf := make([]byte, maxLine)
	defer clear(buf)
	lines := bufio.NewScanner(r)
	lines.Buffer(buf, len(buf))
	lines.Split(wholeLines)
	head, err := readHead(lines)
	if err != nil {
		return err
	}
	last, of := ident{}, 0
	for n := int64(0); n < head.Versions; n++ {
		if !lines.Scan() {
			return unreadable(lines.Err(), "it ends after %d of %d versions", n, head.Versions)
		}
		line := exportLine{}
		if err := canonical(lines.Bytes(), &line); err != nil {
			return notExport("line %d is none of an export", n+2).WithCause(err)
		}
		err := line.check(last)
		if of++; line.secret() != (ident{last.scope, last.name, 0}) {
			of = 1
		}
		if err == nil && of > MaxVersions {
			err = errors.New("the secret has too many versions")
		}
		if err != nil {
			clear(line.Value)
			return notExport("line %d is none of an export: %v", n+2, err)
		}
		err = f(line)
		if clear(line.Value); err != nil {
			return err
		}
		last = line.ident()
	}
	if err := readBindings(lines, head, bound); err != nil {
		return err
	}
	if lines.Scan() || lines.Err() != nil {
		return unreadable(lines.Err(), "it goes on after its %d versions and %d bindings", head.Versions, head.Bindings)
	}
	return nil
}

// readBindings reads the lines of bindings, which are written as the vault keeps them.
func readBindings(lines *bufio.Scanner, head exportHead, f func(secrets.Binding) error) error {
	last := ""
	for n := int64(0); n < head.Bindings; n++ {
		if !lines.Scan() {
			return unreadable(lines.Err(), "it ends after %d of %d bindings", n, head.Bindings)
		}
		var b secrets.Binding
		if err := canonical(lines.Bytes(), &b); err != nil {
			return notExport("line %d is none of an export", head.Versions+n+2).WithCause(err)
		}
		checked := b
		if err := checked.Check(); err != nil || !reflect.DeepEqual(checked, b) || b.Name <= last || !keeps(b.CreatedAt) ||
			!isPrincipal(b.CreatedBy) {
			return notExport("line %d is no binding of an export", head.Versions+n+2)
		}
		last = b.Name
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

func readHead(lines *bufio.Scanner) (head exportHead, err error) {
	if !lines.Scan() {
		return head, unreadable(lines.Err(), "it is empty")
	}
	var what struct {
		Format  string `json:"format"`
		Version int64  `json:"version"`
	}
	if err := json.Unmarshal(lines.Bytes(), &what); err != nil || what.Format != exportFormat {
		return head, notExport("it does not begin as one")
	}
	if what.Version != exportVersion && what.Version != exportFirst {
		return head, invalid("the export is of format %d, and this Palyra reads format %d", what.Version, exportVersion).
			WithRemedy("import it with the version of Palyra that made it, or a later one")
	}
	if err := canonical(lines.Bytes(), &head); err != nil || head.Versions < 1 || head.Versions > MaxSecrets ||
		head.Bindings < 0 || head.Bindings > secrets.MaxBindings || head.Version == exportFirst && head.Bindings > 0 ||
		!keeps(head.At) || !isPrincipal(head.By) {
		return head, notExport("its first line is none of an export").WithCause(err)
	}
	return head, nil
}

// canonical reads a line that is written in the one way.
func canonical(text []byte, line any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(line); err != nil {
		return errors.New("it is not the JSON of one") // what is not right may be a value
	}
	again, err := json.Marshal(line)
	defer clear(again)
	if err != nil || !bytes.Equal(text, again) {
		return errors.New("it is written otherwise")
	}
	return nil
}

// check refuses a line that no vault could have given, or that does not come after the last one.
func (l exportLine) check(last ident) error {
	n := len(l.Value)
	switch {
	case secrets.CheckName(l.Scope, l.Name) != nil:
		return errors.New("the name or the scope")
	case l.Version < 1 || l.ident().compare(last) <= 0:
		return errors.New("the version, or the order")
	case n == 0 || n > MaxValue || n < secrets.MinMasked && !l.Unmasked:
		return errors.New("the length of the value")
	case !keeps(l.CreatedAt) || !keeps(l.ExpiresAt):
		return errors.New("a time")
	case !isPrincipal(l.CreatedBy):
		return errors.New("who put it")
	}
	return nil
}

const maxPrincipal = 256

// keeps reports whether tables hold a time as it is, and an export would have it so.
func keeps(t time.Time) bool {
	_, offset := t.Zone()
	return offset == 0 && store.Moment(store.Nanos(t)).Equal(t)
}

// isPrincipal reports whether somebody can be called that.
func isPrincipal(p palyra.Principal) bool {
	return len(p) <= maxPrincipal && p.Kind() != "" && p.Name() != ""
}

// wholeLines splits a text into its lines, each of which has an end.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errors.New("the last line has no end")
	}
	return 0, nil, nil
}

// notExport is the error of a file that Palyra did not write.
func notExport(format string, args ...any) *palyra.Error {
	return invalid("the file is no export of a vault: "+format, args...).WithRemedy("name a file that 'palyra vault export' wrote")
}

// unreadable is why a text ends where it should not, or not where it should.
func unreadable(err error, format string, args ...any) error {
	if err == nil || !errors.Is(err, agefile.ErrChanged) {
		return notExport(format, args...).WithCause(err)
	}
	return changedExport(err)
}

func changedExport(err error) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "the export was changed, or cut short, since it was written").
		WithRemedy("use another copy of it; nothing was imported").WithCause(err)
}

// openExport opens the text of an export.
func openExport(file io.ReaderAt, size int64, passphrase palyra.Secret) (text *io.SectionReader, err error) {
	if size > secrets.MaxExport {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonInputTooLarge, "the file has %d bytes, and no export more than %d", size,
			int64(secrets.MaxExport)).WithRemedy("name a file that 'palyra vault export' wrote")
	}
	err = passphrase.Use(func(pass []byte) (err error) {
		text, err = agefile.NewReader(file, size, pass)
		return err
	})
	switch {
	case errors.Is(err, agefile.ErrPassphrase):
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential,
			"the passphrase does not open the export, or its beginning was changed").
			WithRemedy("try again with the passphrase that it was exported with; nothing was imported").WithCause(err)
	case errors.Is(err, agefile.ErrForeign):
		return nil, notExport("it is not encrypted as one").WithCause(err)
	case errors.Is(err, agefile.ErrChanged):
		return nil, changedExport(err)
	case err != nil:
		return nil, fmt.Errorf("vault: import: %w", err)
	}
	return text, nil
}
