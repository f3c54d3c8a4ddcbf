#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rediss://: servers with TLS, alone and in a Cluster; certificates that do not fit; time limits.
# tags: slow
# shellcheck disable=SC2030,SC2031 # output and stderr, which run sets

load ../lib/helpers
load ../lib/redis

# certificate NAME ALTERNATIVES [DAYS]: NAME.crt and NAME.key, signed by the authority ca.crt.
certificate()
{
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out request \
        -subj "/CN=$1" 2>/dev/null
    openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days "${3-10}" \
        -out "$1.crt" -extfile <(echo "subjectAltName=$2") 2>/dev/null
}

authority()
{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out "$1" \
        -days 10 -subj "/CN=$1" 2>/dev/null
}

tls_is_here()
{
    redis_is_here && command -v openssl >/dev/null && [[ $(redis-cli --help 2>&1) == *--tls* ]] &&
        [[ $(seen --version) == *'TLS: OpenSSL'* ]]
}

setup_file()
{
    tls_is_here || return 0
    cd "$BATS_FILE_TMPDIR" || return
    authority stranger.crt
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout foreign.key -out request \
        -subj /CN=foreign 2>/dev/null
    openssl x509 -req -in request -CA stranger.crt -CAkey ca.key -CAcreateserial -days 10 \
        -out foreign.crt 2>/dev/null
    authority ca.crt
    certificate server DNS:localhost,IP:127.0.0.1,IP:::1
    certificate named DNS:cache.example
    certificate wild 'DNS:*.cache.example'
    certificate expired DNS:localhost,IP:127.0.0.1 0
    certificate unfit $'IP:127.0.0.1\nextendedKeyUsage=clientAuth'
    certificate client DNS:client
    openssl pkey -in client.key -aes128 -passout pass:secret -out locked.key
    redis_directory
    tls_start a server no --bind 127.0.0.1 ::1
    redis_share
}

setup()
{
    cd "$BATS_TEST_TMPDIR" || return
    need_redis
    tls_is_here || skip 'no OpenSSL, or no Redis with TLS'
    certs=$BATS_FILE_TMPDIR
    redis_shared
    cp "$certs"/*.crt "$certs"/*.key .
    helper=
}

teardown()
{
    local name
    [ -z "${helper-}" ] || kill "$helper" 2>/dev/null || true
    for name in "${!REDIS_PIDS[@]}"; do
        [ "$name" = a ] || redis_kill "$name"
    done
}

teardown_file()
{
    ! tls_is_here || { redis_shared; redis_stop; }
}

# tls_start NAME CERTIFICATE CLIENTS [OPTION...]: a server whose TLS port is PORTS[NAME]. CLIENTS: must they
# have a certificate (no, yes)?
declare -gA PORTS=()
tls_start()
{
    local name=$1 certificate=$2 clients=$3 try port certs=${BATS_FILE_TMPDIR}
    shift 3
    for try in {1..20}; do
        port=$((10000 + RANDOM % 20000))
        ! redis_start "$name" --tls-port $port --tls-cert-file "$certs/$certificate.crt" \
            --tls-key-file "$certs/$certificate.key" --tls-ca-cert-file "$certs/ca.crt" \
            --tls-auth-clients "$clients" "$@" || break
        [ "$try" != 20 ] || return 1
    done
    PORTS[$name]=$port
    echo "$port" >"$REDIS_DIR/$name/port"
}

# at NAME [HOST [KEY]]: the address of a filter there.
at() { echo "rediss://${2-127.0.0.1}:$(cat "$REDIS_DIR/$1/port")/${3-k}?layout=gozero:bits=20000"; }

cluster_is_up() { [[ $(redis "$1" CLUSTER INFO) == *cluster_state:ok* ]]; }

# relay NAME ACTION ARGUMENT: starts relay.py before a server; its port is in the file `port`.
relay()
{
    setpriv --pdeathsig KILL python3 "$SOURCE/tests/lib/relay.py" "$(cat "$REDIS_DIR/$1/port")" \
        "$2" "$3" >port 3>&- &
    helper=$!
    disown "$helper"
    await "$helper" test -s port
}

@test "what a filter in a file answers, one behind TLS answers" {
    seq 1000 >keys
    seq 500 1500 >asked
    seen create --layout gozero:bits=20000 f keys
    for host in 127.0.0.1 '[::1]'; do
        redis a DEL k
        seen add --create --tls-ca ca.crt "$(at a "$host")" keys
        alike <(seen query f asked) <(seen query --tls-ca ca.crt "$(at a "$host")" asked)
        seen import --tls-ca ca.crt "$(at a "$host")" -o copy --force
        alike <(seen export f -o -) <(seen export copy -o -)
    done
    seen dedup --tls-ca ca.crt "$(at a)" asked >new
    alike new <(seen dedup copy asked 2>/dev/null)
    seen export --tls-ca ca.crt f -o "$(at a 127.0.0.1 other)"
    [ "$(seen query -c --tls-ca ca.crt "$(at a 127.0.0.1 other)" keys)" = 1000 ]
    [ "$(seen stats --json --tls-ca ca.crt "$(at a)" | jq -r .kind)" = gozero ]
    # The system's authorities, by the variables that OpenSSL knows.
    SSL_CERT_FILE=ca.crt quiet seen query -q "$(at a)" keys
    mkdir hashed
    cp ca.crt "hashed/$(openssl x509 -hash -noout -in ca.crt).0"
    SSL_CERT_DIR=hashed quiet env -u SSL_CERT_FILE "$SEEN" query -q "$(at a)" keys
    # The server's own certificate may be the one to trust.
    quiet seen query -q --tls-ca server.crt "$(at a)" keys
}

@test "of the system's authorities a hashed directory is searched, and else the file is read" {
    need_strace
    mkdir hashed named
    cp ca.crt "hashed/$(openssl x509 -hash -noout -in ca.crt).0"
    cp ca.crt named
    for dir in hashed named; do
        run -2 env -u SSL_CERT_FILE SSL_CERT_DIR=$dir strace -f -e trace=openat,open -o $dir.trace \
            "$SEEN" query "$(at a 127.0.0.1 absent)" -k x
        echo "$output" >$dir.said
    done
    grep -q "there is no key 'absent'" hashed.said
    grep -q 'no trusted certificate' named.said
    run ! grep '/cert\.pem' hashed.trace
    grep -q '/cert\.pem' named.trace
}

@test "a connection for which there is no memory is refused" {
    need_preload
    seen create --layout gozero:bits=20000 f -k 1
    seen export --tls-ca ca.crt f -o "$(at a)"
    for ((n = 1; n < 9; n++)); do
        run -2 --separate-stderr failing calloc:$n:ENOMEM seen query -q --tls-ca ca.crt "$(at a)" -k 1
        [[ $stderr == 'seen: '*[Mm]emory* && $stderr != *$'\n'* ]]
    done
}

@test "a certificate that does not fit is refused at once" {
    local port
    port=$(cat "$REDIS_DIR/a/port")
    refuses "seen: cannot connect to '127.0.0.1:$port': no trusted certificate vouches for its certificate: self-signed certificate in certificate chain (--tls-ca names the ones to trust)" \
        seen query --tls-ca stranger.crt "$(at a)" -k x
    refuses "seen: cannot connect to '127.0.0.2:$port': Connection refused" \
        seen query --tls-ca ca.crt "$(at a 127.0.0.2)" -k x
    tls_start e expired no
    refuses "seen: cannot connect to '127.0.0.1:${PORTS[e]}': its certificate has expired" \
        seen query --tls-ca ca.crt "$(at e)" -k x
    tls_start u unfit no
    run -2 --separate-stderr seen query --tls-ca ca.crt "$(at u)" -k x
    [[ ${#stderr_lines[@]} = 1 && $stderr == *"': its certificate is not valid: "*purpose ]]
    local long
    long=$(printf 'x%.0s' {1..300})
    refuses "seen: cannot connect to '127.0.0.1:$port': '${long:0:255}' is not a name that a certificate can bear" \
        seen query --tls-ca ca.crt --tls-name "$long" "$(at a)" -k x
    tls_start n named no
    refuses "seen: cannot connect to '127.0.0.1:${PORTS[n]}': its certificate is not for '127.0.0.1' (--tls-name tells the name to expect)" \
        seen query --tls-ca ca.crt "$(at n)" -k x
    quiet seen add --create --tls-ca ca.crt --tls-name cache.example "$(at n)" -k x
    quiet seen query -q --tls-ca ca.crt --tls-name cache.example "$(at n)" -k x
    tls_start w wild no
    quiet seen add --create --tls-ca ca.crt --tls-name a.cache.example "$(at w)" -k x
    refuses "seen: cannot connect to '127.0.0.1:${PORTS[w]}': its certificate is not for 'a.b.cache.example' (--tls-name tells the name to expect)" \
        seen query --tls-ca ca.crt --tls-name a.b.cache.example "$(at w)" -k x
}

@test "the name of a host is looked up, and the certificate is to be for it" {
    getent ahosts localhost >addresses || skip 'localhost has no address here: /etc/hosts lacks it'
    quiet seen add --create --tls-ca ca.crt "$(at a localhost named)" -k x
    quiet seen query -q --tls-ca ca.crt "$(at a localhost named)" -k x
    tls_start o named no
    refuses "seen: cannot connect to 'localhost:${PORTS[o]}': its certificate is not for 'localhost' (--tls-name tells the name to expect)" \
        seen query --tls-ca ca.crt "$(at o localhost)" -k x
}

@test "a server can want a certificate of its client, with either version of TLS" {
    for version in TLSv1.2 TLSv1.3; do
        tls_start c server yes --tls-protocols "$version"
        run -2 --separate-stderr seen query --tls-ca ca.crt "$(at c)" -k x
        [[ ${#stderr_lines[@]} = 1 && $stderr == *': it wants a certificate of this client (--tls-cert and --tls-key): '* ]]
        run -2 --separate-stderr seen query --tls-ca ca.crt --tls-cert foreign.crt --tls-key foreign.key "$(at c)" -k x
        [[ ${#stderr_lines[@]} = 1 && $stderr == *': TLS failed: '* ]]
        quiet seen add --create --tls-ca ca.crt --tls-cert client.crt --tls-key client.key "$(at c)" -k x
        cat client.crt client.key >both
        quiet seen query -q --tls-ca ca.crt --tls-cert both "$(at c)" -k x
        redis_kill c
    done
}

@test "files that do not fit are named before a byte is sent" {
    refuses "seen: cannot use --tls-ca 'missing': No such file or directory" \
        seen query --tls-ca missing "$(at a)" -k x
    echo x >empty
    run -2 --separate-stderr seen query --tls-ca empty "$(at a)" -k x
    [[ $stderr == "seen: cannot use --tls-ca 'empty': "* ]]
    run -2 --separate-stderr seen query --tls-ca ca.crt --tls-cert empty --tls-key client.key "$(at a)" -k x
    [[ $stderr == "seen: cannot use --tls-cert 'empty': "* ]]
    run -2 --separate-stderr seen query --tls-ca ca.crt --tls-cert client.crt --tls-key server.key "$(at a)" -k x
    [[ $stderr == "seen: cannot use --tls-key 'server.key': key values mismatch" ]]
    refuses "seen: cannot use --tls-key 'locked.key': the key is encrypted ('openssl pkey' decrypts it)" \
        seen query --tls-ca ca.crt --tls-cert client.crt --tls-key locked.key "$(at a)" -k x
    refuses "seen: cannot use 'redis://localhost/k?layout=gozero:bits=20000': a --tls option needs rediss://" \
        seen query --tls-ca ca.crt 'redis://localhost/k?layout=gozero:bits=20000' -k x
}

@test "TLS at a port without it, and plain text at a port with it, are told" {
    redis_six_ports=$((10000 + RANDOM % 20000))
    until redis_start p --port "$redis_six_ports" --bind 127.0.0.1; do
        redis_six_ports=$((10000 + RANDOM % 20000))
    done
    echo "$redis_six_ports" >"$REDIS_DIR/p/port"
    # What Redis 7 takes for the beginning of a command, Redis 8 refuses at once.
    run -2 --separate-stderr seen query --timeout 1 --tls-ca ca.crt "$(at p)" -k x
    [[ $stderr == "seen: no TLS answer from '127.0.0.1:$redis_six_ports' within 1 s (if it expects none, write redis://)" ||
        $stderr == "seen: cannot connect to '127.0.0.1:$redis_six_ports': it does not speak TLS (without TLS, write redis://)" ]]
    run -2 --separate-stderr seen query "redis://127.0.0.1:$(cat "$REDIS_DIR/a/port")/k?layout=gozero:bits=20000" -k x
    [[ ${#stderr_lines[@]} = 1 && $stderr == *'(if it expects TLS, write rediss://)' ]]
}

# said HEX: what a query says of a server that answers so.
said()
{
    rm -f port
    relay a say "$1"
    run -2 --separate-stderr seen query --timeout 1 --tls-ca ca.crt \
        "rediss://127.0.0.1:$(cat port)/k?layout=gozero:bits=20000" -k x
    kill "$helper"
    [ "${#stderr_lines[@]}" = 1 ]
    stderr=${stderr#*"$(cat port)': "}
}

@test "what answers the first bytes with anything else is told, and a connection that ends there" {
    for answer in '-ERR Protocol error' 'HTTP/1.1 400 Bad Request'; do
        said "$(printf '%s\r\n' "$answer" | od -An -v -tx1 | tr -d ' \n')"
        [ "$stderr" = 'it does not speak TLS (without TLS, write redis://)' ]
    done
    said 160303ffff7878 # OpenSSL 3.5 has another reason for a length that no record has
    [[ $stderr == 'it does not speak TLS (without TLS, write redis://)' || $stderr == 'TLS failed: '* ]]
    said 16030300047878
    [ "$stderr" = 'Connection reset by peer' ]
    said 15030300020250
    [[ $stderr == 'TLS failed: '* ]]
}

@test "a connection that the server has closed while nothing was asked is made anew" {
    redis a DEL k
    seen add --create --tls-ca ca.crt "$(at a)" </dev/null
    mkfifo held
    seen dedup --tls-ca ca.crt "$(at a)" <held >out 2>err &
    helper=$!
    exec {hold}>held
    for n in 1 2 3; do
        echo $n >&"$hold"
        await "$helper" grep -qx $n out
        redis a CLIENT KILL TYPE normal
    done
    exec {hold}>&-
    wait "$helper"
    helper=
    alike out <(seq 3)
    [ ! -s err ]
}

@test "a relay reads no key and no password" {
    tls_start s server no --requirepass hush-hush
    relay s record bytes
    uri="rediss://127.0.0.1:$(cat port)/k-of-the-filter?layout=gozero:bits=20000"
    echo hush-hush >password
    seq -f 'key-%g' 200 >keys
    quiet seen add --create --tls-ca ca.crt --password-file password "$uri" keys
    [ "$(seen query -c --tls-ca ca.crt --password-file password "$uri" keys)" = 200 ]
    [ "$(wc -c <bytes)" -gt 2000 ]
    run ! grep -aE 'hush|k-of-the|key-|SETBIT|BITFIELD' bytes
}

@test "a connection that is cut in a record prints no record twice" {
    seq 20000 >keys
    for bytes in 900 2000 3000 4000 9000; do
        redis a DEL k
        rm -f port
        relay a cut $bytes
        uri="rediss://127.0.0.1:$(cat port)/k?layout=gozero:bits=4000000"
        seen dedup --create --tls-ca ca.crt "$uri" keys >out 2>err && status=0 || status=$?
        kill "$helper"
        [ "$status" = 0 ] || { [ "$status" = 2 ]; [ "$(wc -l <err)" = 1 ]; }
        seen dedup --create --tls-ca ca.crt "$(at a 127.0.0.1 k | sed s/20000/4000000/)" keys >>out
        [ -z "$(sort out | uniq -d)" ]
    done
}

@test "a server that drips, or is stopped, ends the command within the time limit" {
    seq 1000 >keys
    redis a DEL k
    seen add --create --tls-ca ca.crt "$(at a)" keys
    relay a drip 0.3
    port=$(cat port)
    run -2 --separate-stderr timeout 60 seen query --timeout 2 --tls-ca ca.crt "$(at a | sed "s/:[0-9][0-9]*\\//:$port\\//")" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == *"'127.0.0.1:$port' within 2 s"* ]]
    redis_start p
    uri="unix://$REDIS_DIR/p/socket?key=k&layout=gozero:bits=20000"
    quiet seen add --create "$uri" keys
    kill -STOP "${REDIS_PIDS[p]}"
    run -2 --separate-stderr timeout 60 seen query --timeout 0.5 "$uri" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == "seen: no answer from '$REDIS_DIR/p/socket' within 1 s" ]]
    run -2 --separate-stderr timeout 60 seen query "$uri&timeout=0.5" keys
    [[ $stderr == "seen: no answer from '$REDIS_DIR/p/socket' within 1 s" ]]
    kill -CONT "${REDIS_PIDS[p]}"
}

@test "in a Cluster every node speaks TLS, and one with a wrong certificate ends the run at once" {
    local nodes=()
    for i in 0 1 2; do
        tls_start "c$i" server no --bind 127.0.0.1 --cluster-enabled yes --tls-cluster yes \
            --tls-replication yes --cluster-config-file nodes.conf
        nodes+=("127.0.0.1:${PORTS[c$i]}")
    done
    redis-cli --tls --cacert ca.crt --cluster create "${nodes[@]}" --cluster-yes >log
    for i in 0 1 2; do
        eventually cluster_is_up "c$i"
    done
    seq 5000 >keys
    uri="rediss://127.0.0.1:${PORTS[c0]}/k?layout=gozero:bits=100000&shards=16"
    seen dedup --create --tls-ca ca.crt "$uri" keys >out
    alike out keys
    [ "$(seen query -c --tls-ca ca.crt "$uri" keys)" = 5000 ]
    # A client that trusts this certificate alone meets another one at the next node.
    redis c1 CONFIG SET tls-cert-file "$certs/named.crt" tls-key-file "$certs/named.key"
    SECONDS=0
    run -2 --separate-stderr timeout 100 seen query -c --tls-ca ca.crt "$uri" keys
    [[ ${#stderr_lines[@]} = 1 && $stderr == *"'127.0.0.1:${PORTS[c1]}': its certificate is not for '127.0.0.1'"* ]]
    [ "$SECONDS" -lt 50 ] # without it, a minute of attempts
}

@test "a filter in a file loads nothing of OpenSSL" {
    need_strace
    seen create f -k x
    strace -f -e trace=openat,open -o trace seen query -q f -k x
    run ! grep -E 'libssl|libcrypto|openssl|/certs' trace
    [[ $(ldd "$SEEN") != *libssl* ]]
    mkdir lib
    : >lib/libssl.so.3
    run -2 --separate-stderr env LD_LIBRARY_PATH=lib seen query "$(at a)" -k x
    [[ $stderr == 'seen: cannot load libssl.so.3, which rediss:// needs (on Debian, install libssl3)' ]]
    # Another library.
    cp "$(ldd "$SEEN" | awk '/libz/ { print $3 }')" lib/libssl.so.3
    run -2 --separate-stderr env LD_LIBRARY_PATH=lib seen query "$(at a)" -k x
    [[ $stderr == 'seen: cannot use libssl.so.3: it has no '* ]]
}
