package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// host builds a system out of lines: "dir/" is a directory, "file=text" a file,
// "link>target" a link, with "!0600" behind for a mode.
func host(t *testing.T, lines string) string {
	t.Helper()
	root := t.TempDir()
	for l := range strings.Lines(lines) {
		l, mode, _ := strings.Cut(strings.TrimSpace(l), "!")
		if l == "" {
			continue
		}
		name, text, isFile := strings.Cut(l, "=")
		link, target, isLink := strings.Cut(l, ">")
		var err error
		switch {
		case isLink:
			name = link
			err = mkdirFor(root, name, func(p string) error { return os.Symlink(target, p) })
		case isFile:
			err = mkdirFor(root, name, func(p string) error { return os.WriteFile(p, []byte(text), 0o644) })
		default:
			err = os.MkdirAll(filepath.Join(root, name), 0o755)
		}
		if err == nil && mode != "" {
			var m uint32
			if _, err = fmt.Sscanf(mode, "%o", &m); err == nil {
				err = unix.Chmod(filepath.Join(root, name), m)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mkdirFor(root, name string, make func(path string) error) error {
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return make(path)
}

func TestRoomSystems(t *testing.T) {
	for name, c := range map[string]struct{ host, want string }{
		"merged": {
			`usr/bin/
			usr/lib/
			usr/lib64/
			bin>usr/bin
			sbin>/usr/bin
			lib>usr/lib
			lib64>usr/lib64
			opt/
			home/u/
			root/
			var/lib/`,
			`bind /usr /usr
			link /bin /usr/bin
			link /sbin /usr/bin
			link /lib /usr/lib
			link /lib64 /usr/lib64
			bind /opt /opt`,
		},
		"not merged": {
			`usr/bin/
			bin/
			sbin/
			lib/`,
			`bind /usr /usr
			bind /bin /bin
			bind /sbin /sbin
			bind /lib /lib`,
		},
		"half merged, and a link that dangles": {
			`usr/bin/
			bin>usr/bin
			sbin/
			lib>usr/missing
			lib64>/lib64`,
			`bind /usr /usr
			link /bin /usr/bin
			bind /sbin /sbin`,
		},
		"a store of packages": {
			`usr/bin/env=x
			nix/store/!1775
			nix/store/x/ca.crt=ca
			etc/ssl/certs/ca.crt>/nix/store/x/ca.crt
			etc/os-release>/nix/store/os
			nix/store/os=os`,
			`bind /usr /usr
			bind /nix/store /nix/store
			link /etc/ssl/certs/ca.crt /nix/store/x/ca.crt
			link /etc/os-release /nix/store/os`,
		},
		"what others can change is not shown": {
			`usr/
			opt/!0777
			etc/services=x!0666
			etc/protocols=x!0664
			etc/alternatives/!0775`,
			`bind /usr /usr`,
		},
		"what not everybody can read is not shown": {
			`usr/
			opt/!0700
			etc/services=secret!0600
			etc/ssl/certs/!0700
			etc/mime.types=secret!0640`,
			`bind /usr /usr`,
		},
		"a link elsewhere is followed, inside": {
			`usr/
			data/opt/
			opt>/data/opt
			etc/localtime>../usr/share/zoneinfo/UTC
			usr/share/zoneinfo/UTC=tz
			etc/ssl/certs>/var/lib/ca
			var/lib/ca/sub/
			etc/services>/var/lib/services
			var/lib/services=http
			etc/gai.conf>../../../../../../etc/shadow
			etc/shadow=secret!0600
			etc/host.conf>/proc/self/root/etc/hosts`,
			`bind /usr /usr
			bind /opt /data/opt
			bind /etc/ssl/certs /var/lib/ca
			link /etc/localtime /usr/share/zoneinfo/UTC
			copy /etc/services http`,
		},
		"kinds": {
			`usr/
			etc/python3.11/sitecustomize.py=py
			etc/python3.11/other.py=secret!0600
			etc/python3.12/again>/etc/python3.12
			etc/python3/x=x
			etc/java-17-openjdk/security/java.policy=x
			etc/java/x=x
			etc/alternatives/1>/usr/1
			etc/alternatives/2>/usr/1
			etc/alternatives/3>/usr/1
			etc/alternatives/4>/usr/1
			etc/alternatives/5>/usr/1
			etc/alternatives/6>/usr/1
			etc/alternatives/7>/usr/1
			etc/alternatives/8>/usr/1
			etc/alternatives/9>/usr/1
			etc/pki/tls/private/key=secret
			etc/pki/tls/cert.pem>certs/ca-bundle.crt
			etc/pki/tls/certs/ca-bundle.crt>/etc/pki/ca-trust/extracted/pem/tls.pem
			etc/pki/ca-trust/extracted/pem/tls.pem=pem
			etc/ssl/private/key=secret
			etc/ssl/openssl.cnf=cnf
			etc/gitconfig=secret
			etc/gai.conf=# a comment
			etc/host.conf=
			etc/timezone=UTC`,
			`bind /usr /usr
			bind /etc/alternatives /etc/alternatives
			bind /etc/pki/ca-trust/extracted /etc/pki/ca-trust/extracted
			link /etc/pki/tls/certs/ca-bundle.crt /etc/pki/ca-trust/extracted/pem/tls.pem
			link /etc/pki/tls/cert.pem /etc/pki/ca-trust/extracted/pem/tls.pem
			copy /etc/ssl/openssl.cnf cnf
			copy /etc/timezone UTC
			copy /etc/python3.11/sitecustomize.py py
			bind /etc/java-17-openjdk /etc/java-17-openjdk`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			items, _, err := lookAtSystem(host(t, c.host), uint32(os.Geteuid()))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range items {
				got = append(got, fmt.Sprintf("%s %s %s", [...]string{"bind", "link", "copy"}[i.kind], i.target, i.text))
			}
			var want []string
			for l := range strings.Lines(c.want) {
				want = append(want, strings.TrimSpace(l))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoomSystemsThatCannotBe(t *testing.T) {
	for name, h := range map[string]string{
		"no /usr":                 `bin/`,
		"/usr that is a file":     `usr=x`,
		"/usr that others change": `usr/!0777`,
		"/usr that is closed":     `usr/!0700`,
	} {
		if items, _, err := lookAtSystem(host(t, h), uint32(os.Geteuid())); err == nil {
			t.Errorf("%s: %v", name, items)
		}
	}
	if items, _, err := lookAtSystem(host(t, "usr/"), uint32(os.Geteuid())+1); err == nil {
		t.Errorf("/usr of another: %v", items)
	}
	large := host(t, "usr/\netc/services="+strings.Repeat("x", copyMost+1))
	items, _, err := lookAtSystem(large, uint32(os.Geteuid()))
	if err != nil || len(items) != 2 || items[1] != (item{itemBind, "/etc/services", "/etc/services"}) {
		t.Errorf("a large file: %v, %v", items, err)
	}
}

// A change of anything that a look depends on is noticed without another look.
func TestRoomTraces(t *testing.T) {
	const lines = `usr/bin/
		bin>usr/bin
		etc/services=x
		etc/localtime>../usr/UTC
		usr/UTC=tz
		etc/ld.so.conf.d/one.conf=1
		etc/python3.11/a=1`
	for name, change := range map[string]func(root string) error{
		"content":           func(r string) error { return os.WriteFile(r+"/etc/services", []byte("y"), 0o644) },
		"mode":              func(r string) error { return os.Chmod(r+"/etc/services", 0o600) },
		"removed":           func(r string) error { return os.Remove(r + "/etc/services") },
		"replaced":          func(r string) error { return os.Rename(r+"/usr/UTC", r+"/etc/services") },
		"where a link goes": func(r string) error { return os.WriteFile(r+"/usr/UTC", []byte("other"), 0o644) },
		"another link":      func(r string) error { return errors.Join(os.Remove(r+"/bin"), os.Symlink("usr", r+"/bin")) },
		"something new":     func(r string) error { return os.Mkdir(r+"/opt", 0o755) },
		"new in /etc":       func(r string) error { return os.Mkdir(r+"/etc/python3.12", 0o755) },
		"new in a few":      func(r string) error { return os.WriteFile(r+"/etc/ld.so.conf.d/two.conf", nil, 0o644) },
		"one of a few":      func(r string) error { return os.WriteFile(r+"/etc/ld.so.conf.d/one.conf", []byte("2"), 0o644) },
	} {
		root := host(t, lines)
		_, traces, err := lookAtSystem(root, uint32(os.Geteuid()))
		if err != nil || !sameTraces(traces) {
			t.Fatalf("%s: unchanged, %v", name, err)
		}
		if err := change(root); err != nil {
			t.Fatal(err)
		}
		if sameTraces(traces) {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
}

func TestRoomSettled(t *testing.T) {
	_, traces, err := lookAtSystem(host(t, "usr/"), uint32(os.Geteuid()))
	if err != nil || settled(traces, time.Now()) || !settled(traces, time.Now().Add(time.Minute)) {
		t.Errorf("%v, %v", traces, err)
	}
}

// Who is given a text can read it from its beginning and never change it.
func TestRoomTexts(t *testing.T) {
	var all texts
	defer all.close()
	for n := range maxTexts + 2 {
		text := fmt.Sprint("text ", n)
		for range 2 {
			f, err := all.open(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(f); err != nil || string(got) != text {
				t.Errorf("%q, %v", got, err)
			}
			if w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0); err == nil {
				if _, err := w.WriteString("x"); err == nil || w.Truncate(0) == nil {
					t.Error("it was changed")
				}
				_ = w.Close()
			}
			_ = f.Close()
		}
	}
	if len(all.files) > maxTexts {
		t.Errorf("%d are kept", len(all.files))
	}
}
