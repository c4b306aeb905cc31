# A worker as a container: one static program, no shell, not as root. See docs/workers.md.
#
#   docker build -f packaging/worker.Dockerfile --build-arg PROGRAM=./examples/worker/run -t shipping .
#   docker run -e ABIDE_TOKEN=… shipping
#
# PROGRAM is the package of a program that opens abide://…; it needs no volume and no port.

FROM golang:1.26 AS build
ARG PROGRAM
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags="-s -w" -o /out/worker "$PROGRAM"

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/worker /worker
USER 65532:65532

# A program that ends its engine on SIGTERM finishes what it runs: give it longer than its DrainTimeout.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/worker"]
