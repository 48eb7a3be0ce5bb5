package wire

import (
	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// FromEntry is FromWord for an entry of a tape. What a call printed goes across as the bytes it is: by way of JSON
// it would cost several times as much, and there may be much of it.
func FromEntry(e palyra.TapeEntry) (*v1.TapeEntry, error) {
	var data []byte
	if o := e.ToolOutput; o != nil {
		bare := *o
		data, bare.Data = o.Data, nil
		e.ToolOutput = &bare
	}
	m := &v1.TapeEntry{}
	if err := FromWord(e, m); err != nil {
		return nil, err
	}
	if o := m.GetToolOutput(); o != nil {
		o.Data = data
	}
	return m, nil
}

// ToEntry is ToWord for an entry of a tape. The entry shares its data with m.
func ToEntry(m *v1.TapeEntry) (e palyra.TapeEntry, err error) {
	o := m.GetToolOutput()
	data := o.GetData()
	if o != nil {
		o.Data = nil
		defer func() { o.Data = data }()
	}
	if err := ToWord(m, &e); err != nil {
		return palyra.TapeEntry{}, err
	}
	if e.ToolOutput != nil {
		e.ToolOutput.Data = data
	}
	return e, nil
}
