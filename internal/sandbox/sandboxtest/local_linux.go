package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// plantedVar names what root planted in /opt and /usr/local, for a process that is somebody else.
const plantedVar = "PALYRA_SANDBOXTEST_PLANTED"

// plantLocal puts things of all kinds into /opt and /usr/local, as services and administrators do. Only root can.
func plantLocal(t *testing.T, user person) {
	t.Helper()
	name := fmt.Sprintf("palyra-test-%d", os.Getpid())
	put := func(path string, uid int, mode os.FileMode) {
		t.Helper()
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("#!/bin/sh\necho ran\n"), 0o600))
		check(t, os.Chmod(path, mode))
		check(t, os.Chown(path, uid, -1))
	}
	opt, lib := "/opt/"+name, "/usr/local/lib/"+name
	for _, dir := range []string{opt, lib, "/usr/local/etc/" + name} {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	put(opt+"/other/.env", user.uid, 0o600)
	put(opt+"/own/file", 0, 0o644)
	check(t, os.Chown(opt+"/own", user.uid, -1))
	put(opt+"/service/.env", 65534, 0o644)
	put(opt+"/root/key", 0, 0o600)
	put(opt+"/tool/bin/tool", 0, 0o755)
	put(opt+"/tool/.env", user.uid, 0o640)
	put(lib+"/deep/er/key", user.uid, 0o600)
	put(lib+"/deep/er/tool", 0, 0o755)
	put("/usr/local/etc/"+name+"/npmrc", 0, 0o644)
	check(t, os.Symlink(opt+"/other/.env", lib+"/link"))
	check(t, os.Symlink(opt+"/tool/bin/tool", lib+"/tool"))
	t.Setenv(plantedVar, name)
}

// localPlaces: programs of /opt and /usr/local are there, what is private to anybody is not.
func localPlaces(t *testing.T, b *bench) {
	name := os.Getenv(plantedVar)
	if name == "" {
		t.Log("UNPROVEN HERE: only root can put anything into /opt and /usr/local")
		return
	}
	opt, lib := "/opt/"+name, "/usr/local/lib/"+name
	gone := "EACCES|ENOENT"
	b.deny(t, []denial{
		{"read what is its own in /opt", "read " + opt + "/other/.env", gone, works},
		{"see what is in a directory of its own in /opt", "sees " + opt + "/own file", gone, works},
		{"read in a directory of its own in /opt", "read " + opt + "/own/file", gone, works},
		{"read a service's open file in /opt", "read " + opt + "/service/.env", gone, works},
		{"read root's closed file in /opt", "read " + opt + "/root/key", gone, worksRoot},
		{"read what is its own beside a program", "read " + opt + "/tool/.env", gone, works},
		{"read what is its own in /usr/local", "read " + lib + "/deep/er/key", gone, works},
		{"follow a link in /usr/local", "read " + lib + "/link", gone, works},
		{"read an administrator's settings", "read /usr/local/etc/" + name + "/npmrc", gone, works},
		{"hold what is its own and open it again", "opath " + opt + "/other/.env", gone, works},
	})
	b.allow(t, "read "+opt+"/tool/bin/tool", "read "+lib+"/deep/er/tool", "read "+lib+"/tool")
	for _, tool := range []string{opt + "/tool/bin/tool", lib + "/deep/er/tool", lib + "/tool"} {
		if e := b.works(t, order{argv: []string{"sh", "-c", tool}}); e.stdout != "ran\n" {
			t.Errorf("%s: %q %s", tool, e.stdout, clip(e.stderr))
		}
	}
}
