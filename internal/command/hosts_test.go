package command

import (
	"slices"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want []string
	}{
		{[]string{"curl", "-sS", "https://Example.org/a?b#c"}, []string{"example.org:443"}},
		{[]string{"wget", "http://example.org:8080/"}, []string{"example.org:8080"}},
		{[]string{"git", "clone", "https://me@example.org/x.git"}, []string{"example.org:443"}},
		{[]string{"timeout", "5", "curl", "http://a.example"}, []string{"a.example:80"}},
		{[]string{"sh", "-c", "curl -s https://a.example/x http://b.example >f"}, []string{"a.example:443", "b.example:80"}},
		{[]string{"bash", "-c", "u=https://a.example; curl $u"}, nil},
		{[]string{"grep", "-r", "https://example.org/"}, nil},
		{[]string{"echo", "curl", "https://example.org/"}, nil},
		{[]string{"curl", "example.org"}, nil},
		{[]string{
			"curl", "http://127.0.0.1:80/", "http://[::1]/", "http://localhost/", "http://x.localhost/", "ftp://a.example/",
			"http://{a,b}.example/", "https://",
		}, nil},
		{[]string{"curl", "http://a.example:99999999999/", "http://a\xff.example/", "http://a.example/%zz"}, []string{"a.example:99999999999"}},
		// whoever takes it checks it
		{nil, nil},
	} {
		if got := Hosts(c.argv); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

// A URL among the data of a command is no place that it goes to: what is told here is
// granted to the whole run.
func TestHostsOfDataAreNone(t *testing.T) {
	const u = "https://evil.example/x"
	for _, argv := range [][]string{
		{"git", "commit", "-m", u},
		{"git", "remote", "add", "origin", u},
		{"git", "log", "-S", u},
		{"git", "clone", "-b", u, "."},
		{"git", "clone", ".", u},
		{"git", "push", "origin", u},
		{"git", "-c", u, "fetch", "origin"},
		{"git", "fetch", "--unknown", u},
		{"git", "submodule", "update", u},
		{"curl", "-e", u},
		{"curl", "-sSe", u},
		{"curl", "-H", u},
		{"curl", "-d", u},
		{"curl", "--data-binary", u},
		{"curl", "--referer", u},
		{"curl", "--user-agent", u},
		{"curl", "-o", u},
		{"curl", "--proxy", u},
		{"curl", "--unknown", u},
		{"curl", "-%", u},
		{"wget", "--header", u},
		{"wget", "-qU", u},
		{"wget", "--referer=" + u},
		{"lynx", "-dump", u},
		{"xargs", "curl", u},
		{"sh", "-c", "false && git clone " + u + "; make test"},
		{"sh", "-c", "false && curl " + u},
		{"sh", "-c", "if false; then curl " + u + "; fi"},
		{"sh", "-c", "true | curl " + u},
		{"sh", "-c", "f() { curl " + u + "; }"},
		{"sh", "-c", "curl $o " + u},
		{"sh", "-c", "make test $(curl " + u + ")"},
		{"sh", "-c", "sh -c 'curl " + u + "; make'"},
	} {
		if got := Hosts(argv); len(got) != 0 {
			t.Errorf("%q: %q", argv, got)
		}
	}
	for _, argv := range [][]string{
		{"git", "-C", "d", "--no-pager", "fetch", "--depth", "1", "-q", u, "main"},
		{"git", "clone", "--depth=1", "-bmain", "--", u, "d"},
		{"git", "submodule", "add", "-b", "main", u},
		{"curl", "-sSLo", "f", "-H", "a: b", "--url", u},
		{"wget", "-qO-", "-nv", u},
		{"env", "LANG=C", "nice", "curl", u},
		{"sh", "-c", "timeout 5 curl " + u + " >f"},
	} {
		if got := Hosts(argv); !slices.Equal(got, []string{"evil.example:443"}) {
			t.Errorf("%q: %q", argv, got)
		}
	}
}

// Only what curl and wget are told to fetch from this machine alone counts as such, word by word.
func TestLoopback(t *testing.T) {
	for line, want := range map[string]bool{
		"curl localhost:8000":                                     true,
		"curl -sf http://127.0.0.1:8000/x -o out":                 true,
		"python3 -m http.server 8000 & sleep 1; curl localhost:8": true,
		"wget -qO- http://localhost/":                             true,
		"curl localhost:1 localhost:2":                            true,
		"ls":                                                      false,
		"curl localhost:1; ssh x":                                 false,
		"curl":                                                    false,
		"curl example.org":                                        false,
		"curl localhost:1 example.org":                            false,
		"curl localhost:1; curl example.org":                      false,
		"curl localhost.example.org":                              false,
		"curl http://localhost@example.org/":                      false,
		"curl -x http://example.org localhost":                    false,
		"curl -K file localhost":                                  false,
		"curl --resolve localhost:80:192.0.2.1 localhost":         false,
		"curl localhost:$PORT":                                    false,
		"curl --unknown localhost":                                false,
		"curl ftp://localhost":                                    false,
		"wget -i file localhost":                                  false,
		"curl 'http://{localhost,example.org}/'":                  false,
	} {
		if got := Analyse(Input{Argv: []string{"sh", "-c", line}, Workspace: "/w"}).Loopback; got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
