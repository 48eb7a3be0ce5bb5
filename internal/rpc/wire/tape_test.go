package wire

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// Property: the short way gives what the long way gives, and changes nothing.
func TestEntryTakesTheShortWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e palyra.TapeEntry
		fill(t, reflect.ValueOf(&e).Elem())
		long := &v1.TapeEntry{}
		if err := FromWord(e, long); err != nil {
			t.Fatal(err)
		}
		before := e.ToolOutput
		short, err := FromEntry(e)
		if err != nil || !proto.Equal(long, short) || e.ToolOutput != before {
			t.Fatalf("%v\n%v\n%v", long, short, err)
		}
		back, err := ToEntry(short)
		if d := cmp.Diff(e, back, cmpopts.EquateEmpty()); d != "" || err != nil || !proto.Equal(long, short) {
			t.Fatal(d, err)
		}
	})
}

func TestBadEntries(t *testing.T) {
	if _, err := FromEntry(palyra.TapeEntry{ModelText: &palyra.TapeText{}, ToolOutput: &palyra.TapeOutput{}}); err == nil {
		t.Error("an entry of two kinds crossed")
	}
	bad := &v1.TapeEntry{Event: &v1.TapeEntry_ToolProposed{ToolProposed: &v1.ToolProposed{Arguments: "{"}}}
	if _, err := ToEntry(bad); err == nil {
		t.Error("broken arguments crossed")
	}
	strange := &v1.TapeEntry{Event: &v1.TapeEntry_ToolOutput{ToolOutput: &v1.ToolOutput{Data: []byte("x")}}}
	strange.ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'y'})
	if _, err := ToEntry(strange); err == nil || string(strange.GetToolOutput().GetData()) != "x" {
		t.Errorf("an unknown field crossed, or the message lost its data: %v", err)
	}
}
