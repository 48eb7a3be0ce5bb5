package cell

import (
	"os"
	"reflect"
	"testing"
)

func TestWriteRoom(t *testing.T) {
	want := goodRoom()
	f, err := WriteRoom(want)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for range 2 { // reading moves nothing
		if got, err := ReadRoom(f); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := f.WriteAt([]byte{0}, 0); err == nil {
		t.Error("a room can be changed")
	}
	if _, err := ReadSpec(f); err == nil {
		t.Error("a room is a spec")
	}
	want.Workspace = ""
	if _, err := WriteRoom(want); err == nil {
		t.Error("a bad room is written")
	}
	for _, name := range []string{os.DevNull, "room_linux_test.go"} {
		open, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRoom(open); err == nil {
			t.Errorf("%s is a room", name)
		}
		_ = open.Close()
	}
}

// The sockets of all doors travel in one packet, in order and in both directions.
func TestAllDoorsInOnePacket(t *testing.T) {
	a, b := pair(t)
	for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
		var fds []int
		var reads []*os.File
		for range MaxDoors {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close(); _ = w.Close() }()
			reads, fds = append(reads, r), append(fds, int(w.Fd()))
		}
		if err := ends[0].Send(Report{Kind: ReportBuilt, Version: Version}, fds...); err != nil {
			t.Fatal(err)
		}
		var got Report
		files, err := ends[1].Recv(&got)
		if err != nil || len(files) != MaxDoors || got.Kind != ReportBuilt {
			t.Fatalf("%+v, %d files, %v", got, len(files), err)
		}
		for i, f := range files {
			if _, err := f.Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			var one [1]byte
			if _, err := reads[i].Read(one[:]); err != nil || one[0] != byte(i) {
				t.Errorf("%d arrived as %d, %v", one[0], i, err)
			}
		}
		CloseAll(files)
		if err := ends[0].Send(Order{Kind: OrderBuild}, make([]int, maxFDs+1)...); err == nil {
			t.Error("more descriptors than a packet takes are sent")
		}
	}
}
