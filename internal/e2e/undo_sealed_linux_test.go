package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

const sealedText = "what was there before, and nobody is to read"

// lies are the files of the undo store in which a text can be read, and how many entries lie unsealed.
func (d *daemon) lies(text string) (at []string, unsealed int) {
	d.t.Helper()
	dir := d.cells + "-undo"
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it went meanwhile
		}
		if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), text) {
			at = append(at, path)
		}
		if strings.Contains(path, "/old/") {
			unsealed++
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return at, unsealed
}

// waitSealed waits until nothing in the undo store can be read.
func (d *daemon) waitSealed() {
	d.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(50 * time.Millisecond) {
		at, unsealed := d.lies(sealedText)
		if len(at) == 0 && unsealed == 0 {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("it can be read in %q; unsealed are %d\n%s", at, unsealed, d.log)
		}
	}
}

// What calls replaced rests under a key of the vault's: who reads the state sees none of it. With a locked vault calls go on,
// and undo alone is refused, with what to do.
func TestWhatCallsReplacedIsSealed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.put("f", sealedText+"\n")
	d.put("gone", sealedText+", too\n")
	before := treeOf(t, d.work)
	call := d.willing(d.inRoom(nil, "sh", "-c", "echo new > f; rm gone")).CallID
	after := treeOf(t, d.work)
	d.waitSealed()
	op := d.client(client.OperatorDoor)
	if err := op.RotateVault(t.Context(), "passphrase", palyra.NewSecret([]byte("correct horse battery"))); err != nil {
		t.Fatal(err)
	}
	if _, err := op.UndoCall(t.Context(), call); err != nil || treeOf(t, d.work) != before {
		t.Fatalf("undone: %v\n%s", err, treeOf(t, d.work))
	}
	d.waitSealed()
	d.mustVault("", "lock")
	no := func(what string, err error) {
		t.Helper()
		if e := palyra.AsError(err); e == nil || e.Reason != palyra.ReasonVaultLocked || !strings.Contains(e.Remedy, "palyra vault unlock") {
			t.Errorf("%s with a locked vault: %v", what, err)
		}
	}
	_, err := op.RedoCall(t.Context(), call)
	no("redo", err)
	_, err = op.CheckUndo(t.Context(), call, true)
	no("check", err)
	if text, err := d.palyra("redo", string(call)).CombinedOutput(); err == nil || !strings.Contains(string(text), "palyra vault unlock") {
		t.Errorf("palyra redo: %v\n%s", err, text)
	}
	out := d.willing(d.inRoom(nil, "sh", "-c", "echo again > other; rm gone")) // calls go on, and are sealed
	if out.Effects != palyra.EffectsKept {
		t.Fatalf("%+v", out)
	}
	d.waitSealed()
	if list, err := op.UndoEntries(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("what can be undone is told all the same: %+v, %v", list, err)
	}
	d.stop()
	d.mustStart(unlimited...) // it starts locked
	op = d.client(client.OperatorDoor)
	_, err = op.UndoCall(t.Context(), out.CallID)
	no("undo after a start", err)
	if err := op.UnlockVault(t.Context(), palyra.NewSecret([]byte("correct horse battery"))); err != nil {
		t.Fatal(err)
	}
	if _, err := op.UndoCall(t.Context(), out.CallID); err != nil || treeOf(t, d.work) != before {
		t.Errorf("with the vault open: %v\n%s", err, treeOf(t, d.work))
	}
	if _, err := op.RedoCall(t.Context(), call); err != nil || treeOf(t, d.work) != after {
		t.Errorf("redone: %v\n%s", err, treeOf(t, d.work))
	}
	d.waitSealed()
	d.verify()
	d.stop()
}

// A daemon that is killed while it seals, or while it opens what is sealed, has it sealed and whole after the next start.
func TestKilledWhileSealing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.put("f", sealedText+"\n")
	before := treeOf(t, d.work)
	d.stop()
	for _, point := range []string{"undo.sealed/lost", "undo.sealed/kept", "undo.opened/kept"} {
		t.Run(strings.ReplaceAll(point, "/", "_"), func(t *testing.T) {
			d.mustStart(append(unlimited, "PALYRA_FAULT="+point)...)
			call := d.willing(d.inRoom(nil, "sh", "-c", "echo "+point+" > f")).CallID
			if point == "undo.opened/kept" {
				d.waitSealed()
				if _, err := d.client(client.OperatorDoor).UndoCall(t.Context(), call); err == nil {
					t.Fatal("it was not killed")
				}
			}
			<-d.done
			d.mustStart(unlimited...)
			d.waitSealed()
			if _, err := d.client(client.OperatorDoor).UndoCall(t.Context(), call); err != nil || treeOf(t, d.work) != before {
				t.Errorf("undone: %v\n%s", err, treeOf(t, d.work))
			}
			d.waitSealed()
			if left, _ := filepath.Glob(d.cells + "-undo/*/opened"); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
			d.verify()
			d.stop()
		})
	}
}
