// Package browser drives tabs of a real Chromium in tests of pages: it opens them, clicks and types as
// a person does, and waits for what they show. What the browser complains about fails the test.
package browser
