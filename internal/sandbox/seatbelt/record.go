package seatbelt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"palyra"
)

// record is stored before a run starts, so that a later daemon can end it and sweep after it.
type record struct {
	Version   int           `json:"version"`
	Call      palyra.CallID `json:"call"`
	Pid       int           `json:"pid,omitempty"` // 0: not started yet
	Start     int64         `json:"start,omitempty"`
	Workspace string        `json:"workspace"`
	Seals     []string      `json:"seals"`
	Marks     []mark        `json:"marks"`
}

const (
	recordVersion = 1
	maxRecord     = 8 << 20
	recordSuffix  = ".json"
)

func (r record) encode() ([]byte, error) {
	r.Version = recordVersion
	b, err := json.Marshal(r)
	if err == nil && len(b) > maxRecord {
		err = errors.New("too long")
	}
	if err != nil {
		return nil, fmt.Errorf("seatbelt: record: %w", err)
	}
	return b, nil
}

// readRecord reads what encode wrote. It refuses anything else: a later daemon kills and moves by it.
func readRecord(b []byte) (record, error) {
	bad := func(why string) (record, error) { return record{}, errors.New("seatbelt: record: " + why) }
	if len(b) > maxRecord {
		return bad("too long")
	}
	var r record
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return bad(err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("more than one document")
	}
	switch {
	case r.Version != recordVersion:
		return bad("another version")
	case !plainID(string(r.Call)) || !clean(r.Workspace):
		return bad("no call, or no workspace")
	case r.Pid < 0 || r.Pid == 1 || (r.Pid == 0) != (r.Start == 0) || r.Start < 0:
		return bad("no such process")
	case len(r.Marks) > maxMarks:
		return bad("too many marks")
	}
	for _, m := range r.Marks {
		if !filepath.IsLocal(m.Path) || strings.ContainsRune(m.Path, 0) {
			return bad("a mark is outside the workspace")
		}
	}
	return r, nil
}
