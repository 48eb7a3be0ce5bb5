package rpc

import (
	"net/http"

	"palyra"
)

// origin refuses requests that a web page somewhere else made a browser send. The sockets and the devices' door are
// never a browser's; the console's is, and only its own pages'. A name that leads here but is not ours (DNS
// rebinding) is refused before anything else is looked at.
func (d *door) origin(r *http.Request) *palyra.Error {
	if d.hosts != nil && !d.hosts(r.Host) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonForeignOrigin, "this is not served under that name").
			WithRemedy("use the address that 'palyra status' shows")
	}
	if d.cross == nil {
		if len(r.Header.Values("Origin"))+len(r.Header.Values("Sec-Fetch-Site")) > 0 { // an empty one is one, too
			return palyra.Errorf(palyra.Denied, palyra.ReasonForeignOrigin, "browsers have their own address").
				WithRemedy("open the console: palyra console")
		}
		return nil
	}
	own := "http://" + r.Host
	if d.secure {
		own = "https://" + r.Host
	}
	if o := r.Header.Values("Origin"); len(o) > 1 || len(o) == 1 && o[0] != own {
		return foreignPage()
	}
	if err := d.cross.Check(r); err != nil {
		return foreignPage()
	}
	return nil
}

func foreignPage() *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonForeignOrigin, "another site's page may not use this one").
		WithRemedy("open the console itself: palyra console")
}

// secure puts the headers on that keep a page to itself.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"manifest-src 'self'; worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "+
		"require-trusted-types-for 'script'; trusted-types worker") // the address of sw.js is the only one that a page makes
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer Chromium sends the console's own forms with the origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
