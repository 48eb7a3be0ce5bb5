"""Asks a service that wants AWS Signature Version 4: as a client that means well, or as one that does not.

Prints a line for each request: its name, and the status of the answer.
"""
import datetime, hashlib, hmac, http.client, json, os, ssl, sys
import botocore.session
from botocore.auth import SigV4Auth, SigV4QueryAuth, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

mode, at, elsewhere = sys.argv[1:4]
key = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], os.environ.get("AWS_SESSION_TOKEN"))
region = os.environ["AWS_REGION"]
trust = ssl.create_default_context()


def client(**s3):
    s3["addressing_style"] = "path"
    return botocore.session.get_session().create_client(
        "s3", endpoint_url="https://" + at, config=Config(s3=s3, retries={"max_attempts": 1}))


def send(name, request, body=None, where=at, headers=(), url=None, method=None, trust=trust):
    """Sends what was signed, byte for byte, with what was changed since."""
    path = (url or request.url).split("/", 3)[3]
    c = http.client.HTTPSConnection(where, context=trust)
    try:
        c.putrequest(method or request.method, "/" + path, skip_host="host" in dict(headers), skip_accept_encoding=True)
        for k, v in list(request.headers.items()) + list(headers):
            c.putheader(k, v)
        body = request.body if body is None else body
        if body and "Content-Length" not in request.headers:
            c.putheader("Content-Length", str(len(body)))
        c.endheaders()
        if body:
            c.send(body)
        r = c.getresponse()
        print(name, r.status, r.read().decode(errors="replace")[:200].replace("\n", " "))
    except Exception as e:  # a connection that was cut off is an answer too
        print(name, "failed", type(e).__name__)
    finally:
        c.close()


def signed(method="GET", path="/bucket/key", data=b"", service="s3", region=region, when=None, headers=None, key=key, host=at):
    r = AWSRequest(method=method, url="https://" + host + path, data=data, headers=headers or {})
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(key, service, region)
    if when:
        class Then(datetime.datetime):
            @classmethod
            def utcnow(cls):
                return when
        import botocore.auth
        was, botocore.auth.datetime.datetime = botocore.auth.datetime.datetime, Then
        try:
            auth.add_auth(r)
        finally:
            botocore.auth.datetime.datetime = was
    else:
        auth.add_auth(r)
    return r


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def in_parts(parts, trailer=None, spoil=None):
    """A payload whose parts are signed one by one, as the S3 API Reference says."""
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    size = sum(map(len, parts))
    headers = {"x-amz-decoded-content-length": str(size), "Content-Encoding": "aws-chunked"}
    if trailer:
        headers["x-amz-trailer"] = trailer.split(":")[0]

    class Auth(S3SigV4Auth):
        def payload(self, request):
            return kind

    r = AWSRequest(method="PUT", url="https://" + at + "/bucket/parts", headers=headers)
    Auth(key, "s3", region).add_auth(r)
    before = r.headers["Authorization"].rsplit("Signature=", 1)[1]
    when = r.context["timestamp"]
    scope = "/".join([when[:8], region, "s3", "aws4_request"])
    k = mac(("AWS4" + key.secret_key).encode(), when[:8])
    for text in (region, "s3", "aws4_request"):
        k = mac(k, text)
    sign = lambda text: hmac.new(k, text.encode(), hashlib.sha256).hexdigest()
    empty, body = hashlib.sha256(b"").hexdigest(), b""
    for i, part in enumerate(parts + [b""]):
        before = sign("\n".join(["AWS4-HMAC-SHA256-PAYLOAD", when, scope, before, empty, hashlib.sha256(part).hexdigest()]))
        sent = part[:-1] + b"!" if spoil == i else part
        body += f"{len(part):x};chunk-signature={before}\r\n".encode() + sent + (b"" if trailer and not part else b"\r\n")
    if trailer:
        before = sign("\n".join(["AWS4-HMAC-SHA256-TRAILER", when, scope, before, hashlib.sha256((trailer + "\n").encode()).hexdigest()]))
        body += f"{trailer}\r\nx-amz-trailer-signature:{before}\r\n\r\n".encode()
    return r, body


def well():
    for name, c in ("digest", client(payload_signing_enabled=True)), ("unsigned", client(payload_signing_enabled=False)):
        c.put_object(Bucket="bucket", Key="a b/ü+~'(1).txt", Body=b"x" * 100000, Metadata={"colour": "red  and   blue"})
        got = c.get_object(Bucket="bucket", Key="a b/ü+~'(1).txt", Range="bytes=0-9")
        print(name, got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()[:40])
        c.list_objects_v2(Bucket="bucket", Prefix="a b&c=d/+%ü", Delimiter="/", MaxKeys=7)
        c.put_object(Bucket="bucket", Key="sum", Body=b"y" * 70000, ChecksumAlgorithm="SHA256")
    r, body = in_parts([b"a" * 65536, b"b" * 65536, b"c" * 100])
    send("parts", r, body)
    r, body = in_parts([b"a" * 65536, b"d" * 10], trailer="x-amz-checksum-crc32c:sOO8/Q==")
    send("trailer", r, body)
    send("api", signed("POST", "/stage/a%20b/%C3%BC?b=2&a=%2F&a=1&empty=", json.dumps({"x": "y"}).encode(), "execute-api",
                       headers={"Content-Type": "application/json"}))
    send("api again", signed("GET", "/", service="execute-api"))
    with open("placeholders", "w") as f:
        json.dump([key.access_key, key.secret_key, key.token], f)


def ill():
    now = datetime.datetime.utcnow()
    ok = signed()
    send("another region", signed(region="us-east-1"))
    send("another service", signed(service="iam"))
    send("a header changed", signed("PUT", data=b"x", headers={"x-amz-acl": "private"}), headers=[("x-amz-acl", "public-read")])
    send("a header added", signed("PUT", data=b"x"), headers=[("x-amz-acl", "public-read")])
    send("the path changed", ok, url="https://" + at + "/bucket/other")
    send("the query changed", ok, url="https://" + at + "/bucket/key?acl")
    send("the method changed", ok, method="DELETE")
    send("the body changed", signed("PUT", data=b"harmless"), b"harmful!")
    send("the body of an api", signed("POST", "/", b"harmless", "execute-api"), b"harmful!")
    send("an old one", signed(when=now - datetime.timedelta(minutes=20)))
    send("one of tomorrow", signed(when=now + datetime.timedelta(days=1)))
    for expires in (60, 604800):
        r = AWSRequest(method="GET", url="https://" + at + "/bucket/key")
        SigV4QueryAuth(key, "s3", region, expires=expires).add_auth(r)
        send("an address that is signed", r)
    send("another secret", signed(key=Credentials(key.access_key, "x" * 40, key.token)))
    send("no secret", signed(key=Credentials(key.access_key, "", key.token)))
    send("another token", signed(key=Credentials(key.access_key, key.secret_key, "another-token-of-somebody")))
    r = signed()
    r.headers.replace_header("Authorization", r.headers["Authorization"].replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"))
    send("version 4A", r)
    r = signed()
    r.headers.replace_header("Authorization", "AWS " + key.access_key + ":c2lnbmF0dXJl")
    send("version 2", r)
    send("two signatures", signed(), headers=[("Authorization", ok.headers["Authorization"])])
    for i in range(3):
        r, body = in_parts([b"a" * 65536, b"b" * 100], spoil=i) if i < 2 else in_parts([b"a" * 65536], "x-amz-checksum-crc32c:sOO8/Q==")
        send("a part changed", r, body.replace(b"sOO8", b"sOO9"))
    send("another host", signed(host=elsewhere), where=elsewhere, trust=ssl._create_unverified_context())
    send("the host of another", signed(host=elsewhere), where=at, headers=[("host", elsewhere)])
    stray = AWSRequest(method="POST", url="https://" + at + "/stray", data=json.dumps([key.access_key, key.secret_key]).encode(),
                       headers={"X-Key": key.secret_key, "Authorization": "Bearer " + key.access_key})
    send("placeholders as they are", stray)
    with open("placeholders") as f:
        stolen = Credentials(*json.load(f))
    assert stolen.secret_key != key.secret_key, "each run has placeholders of its own"
    send("placeholders of another run", signed(key=stolen))


def scan():
    send("scan", signed(path="/scan"), headers=[("X-Stand", key.secret_key[::-1])])
    print(json.dumps(dict(os.environ)))


def clock():
    """The median of a request, beyond that of one to a host that nothing is bound to."""
    import statistics, time
    there = {at: trust, elsewhere: ssl._create_unverified_context()}
    there = {host: http.client.HTTPSConnection(host, context=t) for host, t in there.items()}
    took = {host: [] for host in there}
    for i in range(220):
        for host, c in there.items():
            r = signed(host=host)
            start = time.monotonic()
            c.request("GET", "/bucket/key", headers=dict(r.headers.items()))
            a = c.getresponse()
            a.read()
            assert a.status == (200 if host == at else 403), a.status
            if i >= 20:
                took[host].append(time.monotonic() - start)
    print("beyond", 1000 * (statistics.median(took[at]) - statistics.median(took[elsewhere])), "ms of",
          1000 * statistics.median(took[elsewhere]))


{"well": well, "time": clock, "ill": ill, "scan": scan}[mode]()
