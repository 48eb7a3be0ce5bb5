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
		{[]string{"sh", "-c", "curl -s https://a.example/x | head; curl http://b.example"}, []string{"a.example:443", "b.example:80"}},
		{[]string{"bash", "-c", "u=https://a.example; curl $u"}, nil},
		{[]string{"grep", "-r", "https://example.org/"}, nil},
		{[]string{"echo", "curl", "https://example.org/"}, nil},
		{[]string{"curl", "example.org"}, nil},
		{[]string{"curl", "http://127.0.0.1:80/", "http://[::1]/", "http://localhost/", "http://x.localhost/", "ftp://a.example/", "http://{a,b}.example/", "https://"}, nil},
		{[]string{"curl", "http://a.example:99999999999/", "http://a\xff.example/", "http://a.example/%zz"}, []string{"a.example:99999999999"}}, // whoever takes it checks it
		{nil, nil},
	} {
		if got := Hosts(c.argv); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}
