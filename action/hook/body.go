package hook

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// firstRead is how much room is made for a body whose sender says that it is large: only
// what arrives makes more.
const firstRead = 64 << 10

// read returns the body if all of it came in time.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, most int64) ([]byte, outcome, error) {
	if r.ContentLength > most {
		w.Header().Set("Connection", "close") // rather than read what nobody wants
		return nil, outcomeTooLarge, fmt.Errorf("the body has %d bytes, at most %d are allowed", r.ContentLength, most)
	}
	// Connections know the machine's time only, whatever clock the rest goes by.
	h.setDeadline(w, base.System{}.Now().Add(h.readTimeout))
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		// The server keeps reading, to notice when the sender disconnects. The deadline must not
		// end the request while it is being stored, which it would if there is no body.
		h.setDeadline(w, time.Time{})
		return body.Bytes(), "", nil
	}
	w.Header().Set("Connection", "close")
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, outcomeTooLarge, fmt.Errorf("the body has more than the %d bytes that are allowed", most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, outcomeTimeout, fmt.Errorf("the body was not there after %v", h.readTimeout)
	default:
		return nil, outcomeIncomplete, fmt.Errorf("read the body: %w", err)
	}
}

// setDeadline bounds how long reading may take; zero means that it is not bounded.
func (h *Handler) setDeadline(w http.ResponseWriter, at time.Time) {
	if err := http.NewResponseController(w).SetReadDeadline(at); err != nil {
		h.noDeadline.Do(func() {
			h.log.Warn("read deadline of webhooks not supported by the response writer", "error", err)
		})
	}
}
