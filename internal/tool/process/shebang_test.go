package process

import (
	"bytes"
	"strings"
	"testing"
)

func TestShebang(t *testing.T) {
	pad := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		file      string
		path, arg string
		found, ok bool
	}{
		{"", "", "", false, false},
		{"#", "", "", false, false},
		{"\x7fELF", "", "", false, false},
		{" #!/bin/sh\n", "", "", false, false},
		{"#!/bin/sh\n", "/bin/sh", "", true, true},
		{"#!/bin/sh", "/bin/sh", "", true, true},
		{"#! \t/bin/sh \t\nmore", "/bin/sh", "", true, true},
		{"#!/bin/sh -e -u \n", "/bin/sh", "-e -u", true, true},
		{"#!/usr/bin/env\tpython3\n", "/usr/bin/env", "python3", true, true},
		{"#!/bin/sh\r\n", "/bin/sh\r", "", true, true},
		{"#!sh\n", "sh", "", true, true},
		{"#!\n", "", "", true, false},
		{"#! \t \n", "", "", true, false},
		{"#!", "", "", true, false},
		{"#!\x00/bin/sh\n", "", "", true, false},
		{"#!/bin/sh\x00-e\n", "/bin/sh", "", true, true},
		{"#!/bin/sh -e\x00-u\n", "/bin/sh", "-e", true, true},
		{"#!/" + pad(251) + "\nx", "/" + pad(251), "", true, true},
		{"#!/" + pad(252) + "\nx", "/" + pad(252), "", true, true}, // the newline is the last byte the kernel sees
		{"#!/" + pad(253) + "\nx", "", "", true, false},
		{"#!/" + pad(300), "", "", true, false},
		{"#!/bin/sh " + pad(300), "/bin/sh", pad(245), true, true}, // arguments may be cut
		{"#!" + strings.Repeat(" ", 300) + "/bin/sh\n", "", "", true, false},
	} {
		in, found, ok := shebang([]byte(c.file))
		if found != c.found || ok != c.ok || ok && (in.path != c.path || in.arg != c.arg) {
			t.Errorf("%.40q: %.40q %.40q %v %v", c.file, in.path, in.arg, found, ok)
		}
	}
}

// What env makes of the rest of a "#!" line, which it gets as one argument.
func TestEnvOfALine(t *testing.T) {
	for arg, want := range map[string]string{
		"python3": "python3", "./run": "./run", "-S python3 -u": "python3", "-Spython3": "python3", "-vS python3": "python3",
		"--split-string=node --x": "node", "-S -i A=b python3 x": "python3", "-S -- perl -w": "perl", "python3 -u": "python3 -u",
		"-S -u X sh": "sh",
		"-i":         "script", "A=b": "script", "-S": "script", "-S A=b": "script", "-u X python3": "script",
		`-S "my prog"`: "", "-S ${HOME}/x": "", "-S a\\_b": "", "-S a # b": "", "-S -x sh": "", "-x": "",
	} {
		if f := scan(ruleFor("env"), []string{arg, "script"}); (f.wrapped != want || f.unsure) && want != "" ||
			want == "" && f.wrapped != "" && !f.unsure {
			t.Errorf("%q: %+v", arg, f)
		}
	}
}

func TestELF(t *testing.T) {
	if elf(nil) || elf([]byte("\x7fEL")) || !elf([]byte("\x7fELF\x02")) {
		t.Error("elf")
	}
}

// What comes out is what stands in the first bytes, and only those count.
func FuzzShebang(f *testing.F) {
	for _, s := range []string{"#!/bin/sh -e\n", "#!/usr/bin/env -S a b\n", "#!\x00", "#! \t", "\x7fELF", "#!" + strings.Repeat("a", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		in, found, ok := shebang(file)
		if found != bytes.HasPrefix(file, []byte("#!")) || ok && !found {
			t.Fatalf("%q: %v %v", file, found, ok)
		}
		again, _, same := shebang(file[:min(len(file), headSize)])
		if again != in || same != ok {
			t.Fatalf("%q: bytes after the first %d count", file, headSize)
		}
		if !ok {
			return
		}
		for _, s := range []string{in.path, in.arg} {
			if strings.ContainsAny(s, "\x00\n") || !bytes.Contains(file, []byte(s)) {
				t.Fatalf("%q: %q", file, s)
			}
		}
		if in.path == "" || strings.ContainsAny(in.path, " \t") {
			t.Fatalf("%q: path %q", file, in.path)
		}
		if f := scan(ruleFor("env"), []string{in.arg}); !strings.Contains(in.arg, f.wrapped) {
			t.Fatalf("%q: env %q", in.arg, f.wrapped)
		}
	})
}
