package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"time"
)

//go:embed static
var staticFiles embed.FS

// asset is a file that pages load.
type asset struct {
	body    []byte
	kind    string
	version string
}

// loadAssets reads the files, and gives each a version by what is in it: a browser keeps
// them for as long as it likes, and asks for a new one when there is one.
func (s *site) loadAssets() error {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return fmt.Errorf("web: files: %w", err)
	}
	s.assets = map[string]asset{}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			return fmt.Errorf("web: files: %w", err)
		}
		sum := sha256.Sum256(body)
		s.assets[e.Name()] = asset{body: body, kind: kindOf(e.Name()), version: hex.EncodeToString(sum[:6])}
	}
	return nil
}

// kindOf returns a content type that does not depend on the machine.
func kindOf(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return mime.TypeByExtension(ext)
	}
}

// file returns the address of a file.
func (s *site) file(name string) string {
	return s.path("/static/" + name + "?v=" + s.assets[name].version)
}

func (s *site) static(w http.ResponseWriter, r *http.Request) {
	a, ok := s.assets[r.PathValue("name")]
	if !ok {
		s.fail(w, r, errNoPage)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", `"`+a.version+`"`)
	if r.URL.Query().Get("v") == a.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}
