package server

import (
	"bytes"
	"cmp"
	_ "embed" // for the template
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.js
var docsJS []byte

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docs is what the page at /docs shows: the OpenAPI document, for people.
type docs struct {
	Prefix  string
	Version string
	Page    bool // there is a web page to go back to
	Token   bool // requests need a token
	Groups  []docsGroup
	Types   []docsType
}

type docsGroup struct {
	Name   string
	Routes []docsRoute
}

type docsRoute struct {
	ID, Method, Path, Summary, Description string
	Params                                 []docsParam
	Body                                   []docsParam
	Returns                                docsKind
	Curl                                   string
	Status                                 int // of the answer, 0 if there is no example of one
	Answer                                 string
}

type docsParam struct {
	Name, In, Doc string
	Type          docsKind
	Required      bool
}

// docsKind is the type of a value in words, of which the last one may be that of a [docsType].
type docsKind struct{ Words, Ref string }

// docsType is an object that requests and answers consist of.
type docsType struct {
	Name   string
	Fields []docsParam
}

// addDocs adds the page that shows the API to people. It needs nothing from elsewhere.
func (s *Server) addDocs() {
	s.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		var page bytes.Buffer
		if err := docsTemplate.Execute(&page, s.docs(r)); err != nil {
			writeProblem(w, s.asProblem(err))
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(page.Bytes()) // the client may be gone
	})
	s.mux.HandleFunc("GET /docs.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(docsJS) // the client may be gone
	})
}

// needsToken reports whether a request without credentials is refused.
func (s *Server) needsToken() bool { return s.cfg.Auth != nil && !s.cfg.Auth.Anonymous() }

func (s *Server) docs(r *http.Request) docs {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	root := scheme + "://" + r.Host + s.cfg.Prefix
	doc := s.api.OpenAPI()
	byTag := map[string][]docsRoute{}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete, http.MethodPatch: item.Patch,
		} {
			if op != nil {
				tag := strings.Join(op.Tags, ", ")
				byTag[tag] = append(byTag[tag], s.docsOf(doc, root, method, path, op))
			}
		}
	}
	d := docs{Prefix: s.cfg.Prefix, Version: s.cfg.Version, Page: s.cfg.Page, Token: s.needsToken()}
	for tag, routes := range byTag {
		slices.SortFunc(routes, func(a, b docsRoute) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		d.Groups = append(d.Groups, docsGroup{tag, routes})
	}
	slices.SortFunc(d.Groups, func(a, b docsGroup) int { return strings.Compare(a.Name, b.Name) })
	schemas := doc.Components.Schemas.Map()
	for _, name := range sorted(schemas) {
		d.Types = append(d.Types, docsType{name, fieldsOf(schemas[name], "")})
	}
	return d
}

func (s *Server) docsOf(doc *huma.OpenAPI, root, method, path string, op *huma.Operation) docsRoute {
	route := docsRoute{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		route.Params = append(route.Params, docsParam{p.Name, p.In, cmp.Or(p.Description, docOf(p.Schema)), kindOf(p.Schema), p.Required})
	}
	if body := op.RequestBody; body != nil && body.Content["application/json"] != nil {
		schema := body.Content["application/json"].Schema
		if schema != nil && schema.Ref != "" {
			schema = doc.Components.Schemas.SchemaFromRef(schema.Ref)
		}
		route.Body = fieldsOf(schema, "body")
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if response := op.Responses[status]; status[0] == '2' && response.Content["application/json"] != nil {
			route.Returns = kindOf(response.Content["application/json"].Schema)
			break
		}
	}
	if e, ok := firstExamples()[op.OperationID]; ok {
		route.Curl, route.Status = e.curl(root, s.needsToken()), e.Status
		if len(e.Answer) > 0 {
			route.Answer = layout(e.Answer, "  ")
		}
	}
	return route
}

// fieldsOf returns the fields of an object.
func fieldsOf(schema *huma.Schema, in string) (fields []docsParam) {
	if schema == nil {
		return nil
	}
	for _, name := range sorted(schema.Properties) {
		field := schema.Properties[name]
		fields = append(fields, docsParam{name, in, docOf(field), kindOf(field), slices.Contains(schema.Required, name)})
	}
	return fields
}

func kindOf(schema *huma.Schema) docsKind {
	switch {
	case schema == nil:
		return docsKind{}
	case schema.Ref != "":
		return docsKind{Ref: schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]}
	case schema.Type == "array":
		kind := kindOf(schema.Items)
		return docsKind{strings.TrimSpace("list of " + kind.Words), kind.Ref}
	case schema.Format != "":
		return docsKind{Words: schema.Format}
	case schema.Type == "":
		return docsKind{Words: "any"}
	default:
		return docsKind{Words: schema.Type}
	}
}

func docOf(schema *huma.Schema) string {
	if schema == nil {
		return ""
	}
	text := schema.Description
	values := schema.Enum
	if schema.Items != nil {
		values = append(slices.Clone(values), schema.Items.Enum...)
	}
	if len(values) > 0 {
		var names []string
		for _, v := range values {
			if name, ok := v.(string); ok {
				names = append(names, name)
			}
		}
		text = strings.TrimSpace(text + " One of: " + strings.Join(names, ", ") + ".")
	}
	return text
}

func sorted(m map[string]*huma.Schema) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
