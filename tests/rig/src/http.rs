//! A plain HTTP/1.1 client that sends exact bytes.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A client with one keep-alive connection. If an answer ended the connection, or the last exchange failed or was
/// abandoned, the next request connects again.
///
/// The client has no timeout: a missing answer hangs the test.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer that was read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// The headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its transfer encoding.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this name, which must be in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// Panics if the body is not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body of UTF-8")
    }

    /// Panics if the body is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            let body = String::from_utf8_lossy(&self.body);
            panic!("not JSON ({error}): {} {body}", self.status)
        })
    }
}

impl Client {
    /// Connects; panics if no server listens.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = open(address).await;
        let stream = stream.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        Self {
            address,
            stream: Some(stream),
        }
    }

    /// Sends a GET; panics if there is no answer.
    pub async fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], "").await
    }

    /// Sends a GET and returns the body as JSON; panics if the status is not 200.
    pub async fn json(&mut self, path: &str) -> serde_json::Value {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "GET {path}: {response:?}");
        response.json()
    }

    /// Sends any method, with any bytes as the path; panics if there is no answer.
    ///
    /// `host` and, with a body, `content-length` are added unless `headers` has them.
    pub async fn request(
        &mut self,
        method: &str,
        path: impl AsRef<[u8]>,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Response {
        let path = path.as_ref();
        self.try_request(method, path, headers, body)
            .await
            .unwrap_or_else(|error| {
                panic!("{method} {}: {error}", String::from_utf8_lossy(path));
            })
    }

    /// Like [`Self::request`], but returns an error if there is no answer.
    pub async fn try_request(
        &mut self,
        method: &str,
        path: impl AsRef<[u8]>,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> io::Result<Response> {
        let body = body.as_ref();
        let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let (host, length) = (self.address.to_string(), body.len().to_string());
        let mut lines = headers.to_vec();
        if !has("host") {
            lines.insert(0, ("host", &host));
        }
        if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
            lines.push(("content-length", &length));
        }
        let lines = lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = format!(" HTTP/1.1\r\n{}\r\n", lines.collect::<String>());
        let start = format!("{method} ");
        let bytes = [start.as_bytes(), path.as_ref(), head.as_bytes(), body].concat();
        let is_head = method == "HEAD";
        // The stream is taken, so that no later request continues an exchange that failed or was abandoned.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(self.address).await?,
        };
        stream.get_mut().write_all(&bytes).await?;
        let response = read_response(&mut stream, is_head).await?;
        let has = |name: &str| response.header(name).is_some();
        let connection = response.header("connection").unwrap_or_default();
        let is_framed = is_head
            || has("content-length")
            || has("transfer-encoding")
            || matches!(response.status, 204 | 304);
        if is_framed && !connection.eq_ignore_ascii_case("close") {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

async fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

async fn read_response(stream: &mut BufReader<TcpStream>, is_head: bool) -> io::Result<Response> {
    let (status, headers) = loop {
        let (status, headers) = read_head(stream).await?;
        // An answer with 1xx precedes the final answer.
        if status >= 200 {
            break (status, headers);
        }
    };
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    if is_head || matches!(status, 204 | 304) {
        return Ok(response);
    }
    let is_chunked = response
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    if is_chunked {
        response.body = read_chunks(stream).await?;
    } else if let Some(length) = response.header("content-length") {
        response.body = vec![0; length.parse().map_err(io::Error::other)?];
        stream.read_exact(&mut response.body).await?;
    } else {
        stream.read_to_end(&mut response.body).await?;
    }
    Ok(response)
}

async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, Vec<(String, String)>)> {
    let line = read_line(stream).await?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream).await?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| io::Error::other(format!("not a header: {line:?}")))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream).await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            // Skips trailers, up to the empty line.
            while !read_line(stream).await?.is_empty() {}
            return Ok(body);
        }
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..]).await?;
        read_line(stream).await?;
    }
}

/// A line, trimmed at its end; invalid UTF-8 becomes replacement characters.
async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
}
